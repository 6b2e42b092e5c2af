"""What is known of servers, by their address and the model's name.

Owns: the table, each row with its source. Must not know: how a dialect writes a request. A server that is not in it
gets the plainest form (`Profile()`), and what it refuses by name is learned (`models.spoken`).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from noria.models.profiles import Profile

ALL = ("chat", "responses", "messages")
OPENAI = ("chat", "responses")


class Row(msgspec.Struct, frozen=True):
    """A row. `hosts`: the ends of host names, or `:PORT` on this machine; none: any. `model`: a pattern that fits the
    beginning of the model's name, without what a gateway puts before it. `source`: a page or a public report; where a
    row says nothing of its own, that the server takes the plainest form."""

    hosts: tuple[str, ...]
    dialects: tuple[str, ...]
    changes: dict[str, Any]
    source: str
    model: str = ""


AZURE = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
GITHUB = ("models.github.ai", "models.inference.ai.azure.com")
KIMI = ("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com")
GLM = ("api.z.ai", "open.bigmodel.cn")
NO_TEMPERATURE = r"o\d|gpt-5(-mini|-nano|-pro|-codex)?(-20\d\d-\d\d-\d\d)?$"

TABLE: tuple[Row, ...] = (
    # -- OpenAI, and who serves its models
    Row(("api.openai.com", *AZURE), ("chat",), {"output_parameter": "max_completion_tokens", "ids": "short"},
          "OpenAI API reference, Create chat completion; griptape-ai/ComfyUI-Griptape#312; "
          "vercel/ai#5171 (40 characters)"),
    Row(("api.openai.com",), OPENAI, {"cache": "key", "schema": "openai", "documents": True},
          "OpenAI guides, Prompt caching, Structured outputs (supported schemas), File inputs; "
          "nspady/google-calendar-mcp#39"),
    Row(AZURE, OPENAI, {"address": "azure", "auth": "api-key", "schema": "openai"},
          "Microsoft Learn, Azure OpenAI REST API reference (v1: base /openai/v1; dated: deployments and api-version)"),
    Row(("api.openai.com", *AZURE, *GITHUB), OPENAI, {"omit": ["temperature"]},
          "OpenAI guide, Reasoning models; decolua/9router#560 (only the default 1 is supported)", NO_TEMPERATURE),
    Row(GITHUB, ("chat",), {"output_parameter": "max_completion_tokens"},
          "OpenAI API reference (o-series and later refuse max_tokens), served by GitHub Models", r"o\d|gpt-5"),
    Row(GITHUB, ("chat",), {}, "GitHub Docs, REST API endpoints for models inference: the plainest form"),
    Row((".githubcopilot.com",), ("chat",), {"omit": ["reasoning_effort"]},
          "can1357/oh-my-pi, catalog of compatible servers (no reasoning parameters over chat)"),
    Row(("api.openai.com", *AZURE, *GITHUB), OPENAI, {"structured": "beside"},
          "OpenAI guide, Structured outputs (supported models; beside function calling)",
          r"(chatgpt-|gpt-)(4o|4\.1|4\.5|[5-9])|o[1-9]"),
    # -- who serves one family
    Row(("api.mistral.ai",), ("chat",), {"ids": "nine", "bridge": True, "reasoning": "thinking", "cache": "key"},
          "anomalyco/opencode#1680 (nine letters and digits); mistralai/mistral-common#169; Mistral docs, Reasoning; "
          "BerriAI/litellm#30835 (reasoning_content is refused); tanstack/ai ai-mistral 0.7.0 (prompt_cache_key)"),
    Row(("api.x.ai",), OPENAI, {"schema": "xai"}, "vercel/ai#14678 (a boolean additionalProperties is refused)"),
    Row(("api.x.ai",), ("responses",), {"cache": "key"}, "xAI docs, Best practices (prompt_cache_key)"),
    Row(("api.x.ai",), ("chat",), {"output_parameter": "max_completion_tokens"},
          "xAI API reference, Chat completions"),
    Row(("api.x.ai",), OPENAI, {"omit": ["reasoning_effort", "reasoning"]},
          "acedergren/opencode-oci-provider 0.2.3; Google Cloud docs, Reasoning for Grok models",
          r"grok-(4(-|$)|4-fast|4-1|code)"),
    Row(("api.deepseek.com",), ("chat",), {"reasoning": "reasoning_content", "omit": ["tool_choice"]},
          "DeepSeek docs, Thinking mode (tool calls); anomalyco/opencode#24722; "
          "oh-my-pi (no tool_choice while it thinks)"),
    Row(("api.deepseek.com",), ("messages",), {"images": False},
          "DeepSeek docs, Anthropic API (image and document blocks are not supported)"),
    Row(("api.deepseek.com",), ("responses", "messages"), {"reasoning": "reasoning_content"},
          "DeepSeek docs, Thinking mode; decolua/9router#2397; lobehub/lobehub#16294 (unsigned; of every reply with "
          "calls); NousResearch/hermes-agent#18263 (an empty one is refused)"),
    Row(KIMI, ("messages",), {"reasoning": "reasoning_content"},
          "NousResearch/hermes-agent#14018 (thinking of every reply with calls; unsigned is taken)"),
    Row(("api.x.ai",), OPENAI, {"structured": "beside"}, "xAI docs, Structured outputs, With tools (the Grok 4 family)",
          r"grok-[4-9]"),
    Row(("api.mistral.ai",), ("chat",), {"structured": "alone"}, "Mistral docs, Custom structured outputs"),
    Row(KIMI, ("chat",), {"reasoning": "reasoning_content", "schema": "moonshot", "empty": "blank",
                            "output_parameter": "max_completion_tokens", "effort": "thinking"},
          "continuedev/continue#11600; moonshotai/walle; vercel/ai moonshotai 3.0.35 (schemas); simstudioai/sim#5716; "
          "BerriAI/litellm#42186 (an empty string is taken)"),
    Row(KIMI, ("chat",), {"omit": ["temperature"]},
          "simstudioai/sim#5716 (any but the default is refused)", r"kimi-k(2\.[5-9]|[3-9])"),
    Row(KIMI, ("messages",), {"schema": "moonshot"}, "moonshotai/walle (the server's check of tools' schemas)"),
    Row((), ("chat",), {"ids": "kimi"},
          "MoonshotAI/Kimi-K2, tool_call_guidance (functions.NAME:N; other ids lead the model astray)", r"kimi-k2"),
    Row(GLM, ("chat",), {"reasoning": "reasoning_content", "effort": "thinking",
                           "omit": ["tool_choice", "stream_options"], "extra": {"tool_stream": True}},
          "Z.ai docs, Thinking mode, Tool streaming output; AgentScope docs, GLM (only tool_choice auto; "
          "no stream_options)"),
    Row(GLM, ("messages",), {"auth": "bearer"}, "Z.ai docs, Claude Code (ANTHROPIC_AUTH_TOKEN)"),
    Row(("api.minimax.io", "api.minimaxi.com"), ("chat",),
          {"reasoning": "reasoning_details", "extra": {"reasoning_split": True},
           "output_parameter": "max_completion_tokens"},
          "MiniMax docs, OpenAI-compatible API (the whole reply goes back); "
          "AgentScope docs, MiniMax (max_tokens deprecated)"),
    Row((".aliyuncs.com",), ("chat",), {"effort": "enable_thinking"}, "Alibaba Cloud Model Studio, Deep thinking"),
    Row(("generativelanguage.googleapis.com",), ("chat",), {"schema": "gemini", "reasoning": "extra_content"},
          "Gemini docs, OpenAI compatibility, Thought signatures; zed-industries/zed#44875 (fields that are refused)"),
    Row(("generativelanguage.googleapis.com",), ("chat",), {"structured": "alone"},
          "Gemini docs, OpenAI compatibility, Structured output"),
    # -- who serves many
    Row(("openrouter.ai",), ("chat",), {"reasoning": "reasoning_details", "effort": "reasoning", "documents": True},
          "OpenRouter docs, Reasoning tokens (preserving reasoning), PDF inputs"),
    Row(("openrouter.ai",), ("chat",), {"cache": "marks"},
          "OpenRouter docs, Prompt caching; pydantic/pydantic-ai#4392", r"claude"),
    Row(("openrouter.ai",), ("messages",), {"auth": "bearer"}, "OpenRouter docs, Anthropic messages"),
    Row(("api.groq.com",), ("chat",), {"output_parameter": "max_completion_tokens"},
          "Groq API reference, Create chat completion (max_tokens is deprecated)"),
    Row(("api.cerebras.ai",), ("chat",), {"output_parameter": "max_completion_tokens", "schema": "openai"},
          "Cerebras docs, Chat completions, Tool calling (schemas)"),
    Row(("api.fireworks.ai",), ("chat",), {"schema": "typed"},
          "docker/mcp-gateway#234; earendil-works/pi#5352 (a schema without a type is not understood)"),
    Row(("api.fireworks.ai", "api.together.xyz", "api.together.ai"), ("chat",), {"structured": "alone"},
          "Fireworks docs, Structured responses; Together docs, Structured outputs (json_schema)"),
    Row((".databricks.com", ".azuredatabricks.net"), ("chat",), {"schema": "simple"},
          "Databricks docs, Function calling, limitations (no anyOf, oneOf, allOf, $ref, pattern)"),
    Row((".snowflakecomputing.com",), ("chat",), {"output_parameter": "max_completion_tokens"},
          "Snowflake docs, Cortex Chat Completions API"),
    Row(("api.together.xyz", "api.together.ai"), ("chat",), {},
          "Together docs, OpenAI compatibility: the plainest form"),
    Row(("router.huggingface.co",), ("chat",), {}, "Hugging Face docs, Inference Providers: the plainest form"),
    # -- Claude
    Row(("api.anthropic.com",), ("messages",), {"schema": "anthropic", "documents": True},
          "Claude docs, PDF support; anthropics/claude-code#5973 (no union at the top)"),
    Row(("api.anthropic.com",), ("messages",), {"structured": "beside"},
          "Claude docs, Structured outputs (Claude 4.5 and newer; output_config.format; beside tools)",
          r"claude-(opus|sonnet|haiku)-4-([5-9]|\d\d)(\D|$)|claude-[a-z]+-[5-9]"),
    Row((), ("messages",), {"thinking": "budget"},
          "Perplexity docs, Reasoning and caching (adaptive thinking is refused by Haiku 4.5); "
          "Claude docs, Adaptive thinking",
          r"claude-(3|(opus|sonnet|haiku)-4(-[0-5](\D|$)|-20|@|$))"),
    Row(("aiplatform.googleapis.com", "-aiplatform.googleapis.com"), ("messages",),
          {"address": "vertex", "auth": "bearer", "version": "vertex-2023-10-16", "schema": "anthropic",
           "documents": True},
          "Google Cloud docs, Request predictions with Claude models; Claude docs, Vertex AI"),
    Row((".api.aws", ".amazonaws.com"), ("messages",), {"auth": "bearer", "schema": "anthropic", "documents": True},
          "AWS docs, Inference using the Anthropic Messages API (BASE/anthropic, a Bedrock API key)"),
    # -- Gemini, in its own dialect
    Row((), ("gemini",), {"documents": True}, "Gemini API, Document understanding"),
    Row((), ("gemini",), {"structured": "alone"},
          "Gemini API, Structured output; vercel/ai#10023 (2.5: function calling with JSON is unsupported)"),
    Row((), ("gemini",), {"structured": "beside"}, "Gemini API, Structured output, With tools (Gemini 3)",
          r"gemini-([3-9]|\d\d)"),
    Row(("aiplatform.googleapis.com", "-aiplatform.googleapis.com"), ("gemini",), {"auth": "bearer"},
          "Google Cloud docs, Generate content with the Gemini API in Vertex AI (base .../publishers/google)"),
    # -- on this machine
    Row((":11434", ":1234", ":8080"), ("chat",), {"schema": "grammar"},
          "ggml-org/llama.cpp#26930, #14227, #17574; "
          "containers/kubernetes-mcp-server#758 (Ollama and LM Studio alike)"),
    Row((":11434", ":1234", ":8080", ":8000", ":30000"), ("chat",), {"structured": "alone"},
          "Ollama, LM Studio, llama.cpp, vLLM, SGLang docs, Structured outputs; modelship-ai/modelship#71 (a grammar "
          "for the answer leaves no room for calls)"),
    Row((":8000", ":30000", ":4000"), ("chat",), {},
          "vllm-project/vllm#10463 (unknown fields are passed over); SGLang and LiteLLM docs: the plainest form"),
)  # fmt: skip
"""All rows that fit count, later ones over earlier ones; lists of `omit` and tables of `extra` are joined."""


def profile_of(dialect: str, url: str, model: str) -> Profile:
    """What is known of a model at a base URL."""
    host, port = _place(url)
    name = model.lower().rpartition("/")[2].rpartition("anthropic.")[2]
    found: dict[str, Any] = {}
    for row in TABLE:
        if dialect in row.dialects and _at(row.hosts, host, port) and (not row.model or re.match(row.model, name)):
            for key, value in row.changes.items():
                old = found.get(key)
                if isinstance(old, list):
                    found[key] = [*old, *(v for v in value if v not in old)]
                else:
                    found[key] = {**old, **value} if isinstance(old, dict) else value
    return replace(Profile(), **found) if found else Profile()


def _place(url: str) -> tuple[str, str]:
    """The host and, on this machine, the port."""
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "", ""
    here = host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "host.docker.internal")
    return host, f":{port}" if here and port else ""


def _at(hosts: tuple[str, ...], host: str, port: str) -> bool:
    return not hosts or any(
        h == port if h[0] == ":" else host == h or host.endswith(h if h[0] in ".-" else "." + h) for h in hosts
    )
