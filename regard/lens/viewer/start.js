// The beginning of a page that carries its data itself.

import { showPage } from "./page.js";

showPage(document.getElementById("page"), JSON.parse(document.getElementById("header").textContent));
