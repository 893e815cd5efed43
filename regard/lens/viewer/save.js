// Files that a page gives away: made here, named here, downloaded from here.

export function saveBlob(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function saveText(name, text, type) {
  saveBlob(name, new Blob([text], { type: `${type};charset=utf-8` }));
}

/** Rows of strings and numbers as CSV. A text that a spreadsheet would compute is kept a text. */
export function toCsv(rows) {
  return rows.map((row) => row.map(csvField).join(",")).join("\r\n") + "\r\n";
}

function csvField(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = /^[=+\-@\t\r]./s.test(value) ? `'${value}` : String(value);
  return /[",\r\n']/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A name for a file: letters, digits and dashes of what it shows. */
export function fileName(words, suffix) {
  const stem = words
    .join("-")
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}.]+/gu, "-")
    .replace(/^[-.]+|[-.]+$/g, "");
  return `${stem.slice(0, 80) || "regard"}.${suffix}`;
}
