"""Chat templates: rendered as transformers renders them, and never more than text."""

from __future__ import annotations

import json

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import models
from transformers import PreTrainedTokenizerFast

from regard.data.origin import Origin
from regard.decode.template import ChatTemplate
from regard.errors import InputError

TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hello  "},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": "Who are you?"},
]
TEMPLATES = {
    "chatml": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}\n    {% set system = messages[0]['content'] %}\n"
    "    {% set messages = messages[1:] %}\n{% endif %}\n{% for m in messages %}\n"
    "{% if m['role'] == 'user' %}\n[INST] {{ m['content'] | trim }} [/INST]\n{% else %}\n{{ m.content }}"
    "{{ eos_token }}\n{% endif %}\n{% endfor %}",
    "loops": "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m | tojson }}{% endfor %}",
    "names": "{% set space = namespace(seen=0) %}{% for m in messages %}{% set space.seen = space.seen + 1 %}"
    "{% endfor %}{{ space.seen * 2 }}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_rendered_as_transformers_does(name: str) -> None:
    theirs = PreTrainedTokenizerFast(
        tokenizer_object=Engine(models.BPE()), bos_token="<s>", eos_token="</s>", chat_template=TEMPLATES[name]
    )
    expected = theirs.apply_chat_template(TALK, tokenize=False, add_generation_prompt=True)
    ours = ChatTemplate(TEMPLATES[name], {"bos_token": "<s>", "eos_token": "</s>"})
    assert ours.render(TALK) == expected


def test_a_template_is_found_where_it_came() -> None:
    def found(**files: object) -> ChatTemplate | None:
        named = {name.replace("_json", ".json").replace("_jinja", ".jinja"): files[name] for name in files}
        return ChatTemplate.find(
            Origin(
                {
                    name: what.encode() if isinstance(what, str) else json.dumps(what).encode()
                    for name, what in named.items()
                }
            )
        )

    settings = {"chat_template": "one", "eos_token": {"content": "</s>"}, "bos_token": "<s>", "pad_token": None}
    one = found(tokenizer_config_json=settings)
    assert one is not None
    assert (one.source, one.tokens) == ("one", {"eos_token": "</s>", "bos_token": "<s>"})
    several = {"chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": "two"}]}
    assert found(tokenizer_config_json=several) == ChatTemplate("two")
    assert found(chat_template_jinja="three", tokenizer_config_json=several) == ChatTemplate("three")
    assert found(chat_template_json={"chat_template": "four"}) == ChatTemplate("four")
    assert found(config_json={}) is None
    assert ChatTemplate.find(None) is None


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('touch FILE') }}",
        "{{ lipsum.__globals__['os'].popen('touch FILE').read() }}",
        "{{ messages.append(1) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ 'x' * 10 ** 10 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%1000000000d' | format(1) }}",
        "{% for a in range(100000) %}{% for b in range(100000) %}xxxxxxxxxxxx{% endfor %}{% endfor %}",
        "{{ raise_exception('roles must alternate') }}",
        "{% generation %}{% endgeneration %}",
        "{{ nothing.of.the.kind }}",
        "{% if %}",
    ],
)
def test_what_a_template_must_not_do_is_refused_by_name(source: str, tmp_path: object) -> None:
    with pytest.raises(InputError, match="chat template can't be rendered") as error:
        ChatTemplate(source.replace("FILE", f"{tmp_path}/fired")).render(TALK)
    assert "--plain" in error.value.hint
