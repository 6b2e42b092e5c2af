"""What providers say when they refuse: the shapes of their error bodies, made small, with the kind each one is.

A row: who says it, the status, the headers that matter, the body, and what noria makes of it: kind, wait in ms, culprit.
Shapes and words are those of the providers' documentation and of public bug reports; names and numbers are invented.
"""

# ruff: noqa: E501 (the rows are data)

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec


class Row(msgspec.Struct, frozen=True):
    """One refusal, and what it is."""

    who: str
    status: int
    body: Any
    kind: str
    wait: int = 0
    culprit: str = ""
    headers: dict[str, str] = {}

    @property
    def raw(self) -> bytes:
        """The body as it is sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def openai(message: str, kind: str | None = None, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def anthropic(kind: str, message: str) -> dict[str, Any]:
    """An error as Anthropic writes it."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    """An error as Google writes it."""
    more = {"details": list(details)} if details else {}
    return {"error": {"code": code, "message": message, "status": status, **more}}


def violated(*ids: str) -> dict[str, Any]:
    """Which of Google's quotas are used up."""
    quotas = [{"quotaMetric": "generativelanguage.googleapis.com/requests", "quotaId": i} for i in ids]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": quotas}


def delay(text: str) -> dict[str, Any]:
    """When Google says to ask again."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": text}


def reason(text: str) -> dict[str, Any]:
    """Google's reason."""
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": text, "domain": "googleapis.com"}


def router(code: int, raw: Any, message: str = "Provider returned error", **more: Any) -> dict[str, Any]:
    """An error that OpenRouter passes on."""
    metadata = {"raw": raw, "provider_name": "Somebody", **more}
    return {"error": {"message": message, "code": code, "metadata": metadata}, "user_id": "user_1"}


PLAN = "You exceeded your current quota, please check your plan and billing details."
MINUTE, DAY = (f"GenerateRequestsPer{p}PerProjectPerModel-FreeTier" for p in ("Minute", "Day"))
TPM = "on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s. Need more tokens? "
TIER = "Upgrade to Dev Tier today at https://console.groq.example/settings/billing"
PAGE = b"<!DOCTYPE html><html><head><title>x</title><style>b{}</style></head><body><h1>%s</h1></body></html>"

ROWS = [
    # -- OpenAI
    Row("openai", 401, openai("Incorrect API key provided: sk-x.", "invalid_request_error", "invalid_api_key"), "auth"),
    Row("openai", 401, openai("You must be a member of an organization to use the API"), "auth"),
    Row("openai", 403, openai("Country, region, or territory not supported", "request_forbidden",
                              "unsupported_country_region_territory"), "auth", culprit="place"),
    Row("openai", 403, openai("You have insufficient permissions for this operation. Missing scopes: model.request"),
        "auth"),
    Row("openai", 403, openai("Project `p` does not have access to model `m`", "invalid_request_error",
                              "model_not_found"), "unknown_model"),
    Row("openai", 404, openai("The model `m` does not exist or you do not have access to it.", None, "model_not_found"),
        "unknown_model"),
    Row("openai", 404, openai("This is not a chat model and thus not supported in the v1/chat/completions endpoint. "
                              "Did you mean to use v1/completions?", "invalid_request_error", None, "model"),
        "unknown_model"),
    Row("openai", 404, openai("Invalid URL (POST /v1/v1/chat/completions)", "invalid_request_error"), "bad_request"),
    Row("openai", 429, openai("Rate limit reached for m in organization org-x on tokens per min (TPM): Limit 30000, "
                              "Used 29000, Requested 2000. Please try again in 1.2s. Visit https://x to learn more.",
                              "tokens", "rate_limit_exceeded"), "rate_limited", 1_200),
    Row("openai", 429, openai("Rate limit reached for m on requests per min (RPM): Limit 3, Used 3, Requested 1. Please "
                              "try again in 20s. You can increase your rate limit by adding a payment method to your "
                              "account at https://x/account/billing.", "requests", "rate_limit_exceeded"),
        "rate_limited", 20_000),
    Row("openai", 429, openai("Rate limit reached for m on requests per day (RPD): Limit 200, Used 200, Requested 1. "
                              "Please try again in 7m12s.", "requests", "rate_limit_exceeded"),
        "rate_limited", 432_000),
    Row("openai", 429, openai("Request too large for m on tokens per min (TPM): Limit 30000, Requested 342389. The input "
                              "or output tokens must be reduced in order to run successfully.", "tokens",
                              "rate_limit_exceeded"), "context_overflow"),
    Row("openai", 429, openai(PLAN, "insufficient_quota", "insufficient_quota"), "quota"),
    Row("openai", 429, openai("Billing hard limit has been reached", "insufficient_quota", "billing_hard_limit_reached"),
        "quota"),
    Row("openai", 429, {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached",
                                  "plan_type": "plus", "resets_in_seconds": 3_600}}, "quota", 3_600_000),
    Row("openai", 500, openai("The server had an error while processing your request. Sorry about that!",
                              "server_error"), "server"),
    Row("openai", 503, openai("That model is currently overloaded with other requests.", "server_error"), "overloaded"),
    Row("openai", 503, openai("Slow down", "server_error", "slow_down"), "overloaded"),
    Row("openai", 400, openai("This model's maximum context length is 9000 tokens. However, your messages resulted in "
                              "9001 tokens.", "invalid_request_error", "context_length_exceeded", "messages"),
        "context_overflow"),
    Row("openai", 400, openai("Invalid 'messages': array too long. Expected an array with maximum length 2048, but got "
                              "an array with length 2049 instead.", "invalid_request_error", "array_above_max_length",
                              "messages"), "context_overflow"),
    Row("openai", 400, openai("Invalid 'tools': array too long. Expected an array with maximum length 128, but got an "
                              "array with length 129 instead.", "invalid_request_error", "array_above_max_length",
                              "tools"), "bad_request", culprit="tools"),
    Row("openai", 400, {"error": {"message": "Invalid 'tools': array too long. Expected an array with maximum length "
                                  "128, but got an array with length 129 instead."}}, "bad_request"),
    Row("openai", 400, {"error": {"message": "Invalid 'input': array too long. Expected an array with maximum length "
                                  "128, but got an array with length 129 instead."}}, "context_overflow"),
    Row("openai", 400, openai("Request too large: the conversation has 210000 tokens and the model accepts 200000.",
                              "invalid_request_error"), "context_overflow"),
    Row("openai", 400, openai("Requested 100000 output tokens, and the model allows 8192.", "invalid_request_error"),
        "bad_request"),
    Row("openai", 400, openai("Current length is 9001 while limit is 8192", "invalid_request_error"),
        "context_overflow"),
    Row("openai", 400, openai("too many tokens: size limit exceeded by 100 tokens. Try using shorter or fewer inputs.",
                              "invalid_request_error"), "context_overflow"),
    Row("openai", 400, openai("Invalid 'messages[0].content': string too long. Expected a string with maximum length 10, "
                              "but got a string with length 11 instead.", "invalid_request_error",
                              "string_above_max_length", "messages[0].content"),
        "bad_request", culprit="messages[0].content"),
    Row("openai", 400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                              "'max_completion_tokens' instead.", "invalid_request_error", "unsupported_parameter",
                              "max_tokens"), "bad_request", culprit="max_tokens"),
    Row("openai", 400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
                              "invalid_request_error", "invalid_prompt"), "content_filtered"),
    Row("openai", 400, openai("Your request was rejected as a result of our safety system.", "image_generation_user_error",
                              "moderation_blocked"), "content_filtered"),
    Row("openai", 408, b"", "timeout"),
    # -- Azure
    Row("azure", 401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key or wrong API "
                                 "endpoint."}}, "auth"),
    Row("azure", 404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not "
                                 "exist."}}, "unknown_model"),
    Row("azure", 404, {"error": {"code": "404", "message": "Resource not found"}}, "bad_request"),
    Row("azure", 403, {"error": {"code": "403", "message": "Access denied due to Virtual Network/Firewall rules."}},
        "auth", culprit="place"),
    Row("azure", 429, {"error": {"code": "429", "message": "Requests to the ChatCompletions_Create Operation have "
                                 "exceeded token rate limit of your current OpenAI S0 pricing tier. Please retry after "
                                 "45 seconds. Please go here if you would like to increase the limit."}},
        "rate_limited", 45_000),
    Row("azure", 429, {"error": {"code": "429", "message": "You have exceeded call rate limit of your current tier. "
                                 "Please retry after 86400 seconds."}}, "rate_limited", 86_400_000),
    Row("azure", 429, {"error": {"code": "429", "message": "Rate limit is exceeded."}}, "rate_limited", 1_900,
        headers={"x-ms-retry-after-ms": "1900", "retry-after": "2"}),
    Row("azure", 429, {"statusCode": 429, "message": "Rate limit is exceeded. Try again in 2 seconds."},
        "rate_limited", 2_000),
    Row("azure", 400, {"error": {"message": "The response was filtered due to the prompt triggering the content "
                                 "management policy.", "type": None, "param": "prompt", "code": "content_filter",
                                 "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        "content_filtered"),
    Row("azure", 400, {"error": {"code": "OperationNotSupported", "message": "The chatCompletion operation does not work "
                                 "with the specified model, m. Please choose a different model."}}, "unknown_model"),
    Row("azure", 424, {"error": {"code": "FailedDependency", "message": "x"}}, "server"),
    # -- Anthropic
    Row("anthropic", 401, anthropic("authentication_error", "invalid x-api-key"), "auth"),
    Row("anthropic", 403, anthropic("permission_error", "Your API key does not have permission to use it"), "auth"),
    Row("anthropic", 404, anthropic("not_found_error", "model: claude-x"), "unknown_model"),
    Row("anthropic", 404, anthropic("not_found_error", "Not Found"), "bad_request"),
    Row("anthropic", 413, anthropic("request_too_large", "Request exceeds the maximum size"), "context_overflow"),
    Row("anthropic", 429, anthropic("rate_limit_error", "This request would exceed the rate limit for your organization "
                                    "of 30,000 input tokens per minute. Please reduce the prompt length or the maximum "
                                    "tokens requested, or try again later."), "rate_limited", 12_000,
        headers={"retry-after": "12"}),
    Row("anthropic", 429, anthropic("rate_limit_error", "Number of request tokens has exceeded your daily rate limit"),
        "quota"),
    Row("anthropic", 429, anthropic("rate_limit_error", "Extra usage is required for long context requests."), "quota"),
    Row("anthropic", 400, anthropic("invalid_request_error", "Your credit balance is too low to access the API. Please "
                                    "go to Plans & Billing to upgrade or purchase credits."), "quota"),
    Row("anthropic", 400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will "
                                    "regain access on 2026-09-01 at 00:00 UTC."), "quota"),
    Row("anthropic", 403, anthropic("billing_error", "There is an issue with your billing or payment information."),
        "quota"),
    Row("anthropic", 400, anthropic("invalid_request_error", "prompt is too long: 9001 tokens > 9000 maximum"),
        "context_overflow"),
    Row("anthropic", 400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 8000 + "
                                    "2000 > 9000, decrease input length or `max_tokens` and try again"),
        "context_overflow"),
    Row("anthropic", 400, anthropic("invalid_request_error", "max_tokens: 100000 > 8192, which is the maximum allowed "
                                    "number of output tokens for claude-x"), "bad_request", culprit="max_tokens"),
    Row("anthropic", 400, anthropic("invalid_request_error", "top_k: Extra inputs are not permitted"),
        "bad_request", culprit="top_k"),
    Row("anthropic", 400, anthropic("invalid_request_error", "Output blocked by content filtering policy"),
        "content_filtered"),
    Row("anthropic", 400, anthropic("invalid_request_error", "messages.0.content.1.image.source.base64: image exceeds 5 "
                                    "MB maximum: 6000000 bytes > 5242880 bytes"), "bad_request", culprit="image"),
    Row("anthropic", 500, anthropic("api_error", "Internal server error"), "server"),
    Row("anthropic", 529, anthropic("overloaded_error", "Overloaded"), "overloaded"),
    Row("anthropic", 500, anthropic("overloaded_error", "Overloaded"), "overloaded"),
    # -- Gemini and Vertex
    Row("gemini", 400, google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.",
                              reason("API_KEY_INVALID")), "auth"),
    Row("gemini", 400, google(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.",
                              reason("API_KEY_INVALID")), "auth"),
    Row("gemini", 400, google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        "auth", culprit="place"),
    Row("gemini", 403, google(403, "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API "
                              "key."), "auth"),
    Row("gemini", 403, google(403, "PERMISSION_DENIED", "Generative Language API has not been used in project 1 before or "
                              "it is disabled.", reason("SERVICE_DISABLED")), "auth"),
    Row("gemini", 403, google(403, "PERMISSION_DENIED", "This API method requires billing to be enabled.",
                              reason("BILLING_DISABLED")), "quota"),
    Row("gemini", 404, google(404, "NOT_FOUND", "models/m is not found for API version v1beta, or is not supported for "
                              "generateContent."), "unknown_model"),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", PLAN, violated(MINUTE), delay("37s")), "rate_limited", 37_000),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", PLAN, violated(MINUTE), delay("37.5s")),
        "rate_limited", 37_500),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", PLAN, violated(MINUTE, DAY), delay("37s")), "quota", 37_000),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", PLAN, violated(DAY)), "quota"),
    Row("gemini", 429, [google(429, "RESOURCE_EXHAUSTED", PLAN, violated(DAY))], "quota"),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", f"{PLAN}\n* Quota exceeded for metric: x/requests, limit: 0, "
                              "model: m\nPlease retry in 20.04466179s.", delay("20s")), "quota", 20_000),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", f"{PLAN}\n* Quota exceeded for metric: x/requests, limit: 15, "
                              "model: m\nPlease retry in 20.04466179s."), "rate_limited", 20_045),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", PLAN), "quota"),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
        "rate_limited"),
    Row("gemini", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Requests' and limit 'Requests "
                              "per day per user per tier' of service 'x.googleapis.com'.", reason("RATE_LIMIT_EXCEEDED")),
        "quota"),
    Row("gemini", 429, {"error": {"message": json.dumps(google(429, "RESOURCE_EXHAUSTED", PLAN, delay("9s"))),
                                  "code": 429, "status": "Too Many Requests"}}, "rate_limited", 9_000),
    Row("gemini", 400, google(400, "INVALID_ARGUMENT", "The input token count (9001) exceeds the maximum number of tokens "
                              "allowed (9000)."), "context_overflow"),
    Row("gemini", 400, google(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
        "context_overflow"),
    Row("gemini", 400, google(400, "INVALID_ARGUMENT", "Invalid JSON payload received. Unknown name \"foo\" at "
                              "'generation_config': Cannot find field.",
                              {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [
                                  {"field": "generation_config", "description": "Invalid JSON payload received. Unknown "
                                   "name \"foo\" at 'generation_config': Cannot find field."}]}),
        "bad_request", culprit="foo"),
    Row("gemini", 499, google(499, "CANCELLED", "The operation was cancelled."), "server"),
    Row("gemini", 500, google(500, "INTERNAL", "An internal error has occurred. Please retry."), "server"),
    Row("gemini", 503, google(503, "UNAVAILABLE", "The model is overloaded. Please try again later."), "overloaded"),
    Row("gemini", 504, google(504, "DEADLINE_EXCEEDED", "Deadline expired."), "timeout"),
    Row("vertex", 429, google(429, "RESOURCE_EXHAUSTED", "Quota exceeded for aiplatform.googleapis.com/online_prediction_"
                              "requests_per_base_model with base model: m. Please submit a quota increase request."),
        "rate_limited"),
    Row("vertex", 404, google(404, "NOT_FOUND", "Publisher Model `projects/p/models/m` was not found or your project does "
                              "not have access to it."), "unknown_model"),
    Row("vertex", 403, google(403, "PERMISSION_DENIED", "Permission 'aiplatform.endpoints.predict' denied on resource"),
        "auth"),
    # -- Bedrock
    Row("bedrock", 429, {"message": "Too many tokens, please wait before trying again."}, "rate_limited",
        headers={"x-amzn-errortype": "ThrottlingException:http://internal/"}),
    Row("bedrock", 429, {"message": "Too many tokens per day, please wait before trying again."}, "quota"),
    Row("bedrock", 400, {"__type": "ThrottlingException", "message": "Too many requests, please wait"}, "rate_limited"),
    Row("bedrock", 400, {"message": "Input is too long for requested model."}, "context_overflow"),
    Row("bedrock", 400, {"message": "The provided model identifier is invalid."}, "unknown_model"),
    Row("bedrock", 400, {"message": "Invocation of model ID m with on-demand throughput isn't supported. Retry your "
                         "request with the ID of an inference profile that contains this model."}, "unknown_model"),
    Row("bedrock", 400, {"message": "The maximum tokens you requested exceeds the model limit of 4096. Try again with a "
                         "maximum tokens value that is lower than 4096."}, "bad_request"),
    Row("bedrock", 403, {"message": "You don't have access to the model with the specified model ID."}, "unknown_model"),
    Row("bedrock", 403, {"message": "The security token included in the request is expired"}, "auth"),
    Row("bedrock", 403, {"Message": "User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel"},
        "auth"),
    Row("bedrock", 424, {"message": "The model failed to process the request"}, "server"),
    # -- Mistral, Groq, DeepSeek, xAI, Moonshot, Zhipu, DashScope
    Row("mistral", 401, {"detail": "Invalid API Key"}, "auth"),
    Row("mistral", 429, {"object": "error", "message": "Service tier capacity exceeded for this model.",
                         "type": "service_tier_capacity_exceeded", "param": None, "code": "3505"}, "rate_limited"),
    Row("mistral", 400, {"object": "error", "message": "Invalid model: m", "type": "invalid_model", "code": "1500"},
        "unknown_model"),
    Row("mistral", 422, {"object": "error", "message": {"detail": [
        {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]},
        "type": "invalid_request_error", "code": None}, "bad_request", culprit="stream_options"),
    Row("mistral", 400, {"object": "error", "message": "Prompt contains 9001 tokens and 0 draft tokens, too large for "
                         "model with 9000 maximum context length", "type": "invalid_request_prompt", "code": "3051"},
        "context_overflow"),
    Row("fastapi", 422, {"detail": [{"loc": ["body", "messages", 3, "content"], "msg": "str type expected",
                                     "type": "type_error.str"}]}, "bad_request", culprit="messages.3.content"),
    Row("groq", 429, openai(f"Rate limit reached for model `m` in organization `org_x` {TPM}{TIER}", "tokens",
                            "rate_limit_exceeded"), "rate_limited", 4_770),
    Row("groq", 429, openai(f"Rate limit reached for model `m` on tokens per day (TPD): Limit 100000, Used 99900, Requested "
                            f"500. Please try again in 5m45.6s. {TIER}", "tokens", "rate_limit_exceeded"),
        "rate_limited", 345_600),
    Row("groq", 413, openai("Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 14137, "
                            f"please reduce your message size and try again. {TIER}", "tokens", "rate_limit_exceeded"),
        "context_overflow"),
    Row("groq", 400, openai("Failed to call a function. Please adjust your prompt.", "invalid_request_error",
                            "tool_use_failed"), "server"),
    Row("groq", 498, openai("Flex tier capacity exceeded", "x", "capacity_exceeded"), "overloaded"),
    Row("deepseek", 402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), "quota"),
    Row("deepseek", 401, openai("Authentication Fails (no such user)", "authentication_error"), "auth"),
    Row("deepseek", 400, openai("Content Exists Risk", "invalid_request_error", "invalid_request_error"),
        "content_filtered"),
    Row("deepseek", 400, openai("Model Not Exist", "invalid_request_error", "invalid_request_error"), "unknown_model"),
    Row("xai", 400, {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: ab***cd."},
        "auth"),
    Row("xai", 403, {"code": "The caller does not have permission to execute the specified operation", "error": "Your "
                     "newly created team doesn't have any credits yet."}, "quota"),
    Row("xai", 429, {"code": "Some resource has been exhausted", "error": "Your team has either used all available "
                     "credits or reached its monthly spending limit."}, "quota"),
    Row("xai", 403, {"code": "x", "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_X"},
        "content_filtered"),
    Row("xai", 404, {"code": "Some requested entity was not found", "error": "The model m does not exist or your team "
                     "does not have access to it."}, "unknown_model"),
    Row("moonshot", 429, {"error": {"message": "Your account org-x request reached organization max RPM: 3, please try "
                                    "again after 1 seconds", "type": "rate_limit_reached_error"}}, "rate_limited", 1_000),
    Row("moonshot", 429, {"error": {"message": "The engine is currently overloaded, please try again later",
                                    "type": "engine_overloaded_error"}}, "overloaded"),
    Row("moonshot", 429, {"error": {"message": "Your account is suspended, please check your plan and billing details",
                                    "type": "exceeded_current_quota_error"}}, "quota"),
    Row("zhipu", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, "quota"),
    Row("zhipu", 429, {"error": {"code": "1302", "message": "Rate limit reached for requests"}}, "rate_limited"),
    Row("zhipu", 429, {"error": {"code": "1308", "message": "Usage limit reached for 5 hour. Your limit will reset at "
                                 "2026-10-02 12:00:00"}}, "quota"),
    Row("zhipu", 400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, "context_overflow"),
    Row("zhipu", 400, {"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含敏感内容"}}, "content_filtered"),
    Row("dashscope", 400, {"code": "Arrearage", "message": "Access denied, please make sure your account is in good "
                           "standing."}, "quota"),
    Row("dashscope", 429, {"code": "Throttling.AllocationQuota", "message": "Allocated quota exceeded, please increase "
                           "your quota limit."}, "rate_limited"),
    Row("dashscope", 400, {"code": "DataInspectionFailed", "message": "Input data may contain inappropriate content."},
        "content_filtered"),
    Row("dashscope", 400, {"code": "InvalidParameter", "message": "Range of input length should be [1, 9000]"},
        "context_overflow"),
    # -- gateways
    Row("openrouter", 429, router(429, "m is temporarily rate-limited upstream. Please retry shortly, or add your own "
                                  "key."), "rate_limited"),
    Row("openrouter", 429, router(429, json.dumps(google(429, "RESOURCE_EXHAUSTED", PLAN, delay("11s")))),
        "rate_limited", 11_000),
    Row("openrouter", 400, router(400, json.dumps(anthropic("invalid_request_error", "prompt is too long: 9001 tokens > "
                                                            "9000 maximum"))), "context_overflow"),
    Row("openrouter", 400, router(400, json.dumps(openai("Missing 'json'", "invalid_request_error", None, "input"))),
        "bad_request", culprit="input"),
    Row("openrouter", 403, router(403, json.dumps(openai("Country, region, or territory not supported",
                                                         "request_forbidden", "unsupported_country_region_territory"))),
        "auth", culprit="place"),
    Row("openrouter", 403, router(403, "", "m requires moderation. Your input was flagged for \"x\"."),
        "content_filtered"),
    Row("openrouter", 402, {"error": {"message": "Insufficient credits. Add more.", "code": 402}}, "quota"),
    Row("openrouter", 404, {"error": {"message": "No endpoints found that support tool use.", "code": 404}},
        "unknown_model"),
    Row("openrouter", 429, router(429, "", "Rate limit exceeded: free-models-per-min. ",
                                  headers={"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0",
                                           "X-RateLimit-Reset": "1800000030000"}), "rate_limited", 30_000),
    Row("openrouter", 429, router(429, "", "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free "
                                  "model requests per day"), "quota"),
    Row("litellm", 429, openai("No deployments available for selected model, Try again in 60 seconds. Passed model=m",
                               "None", "429"), "rate_limited", 60_000),
    Row("litellm", 400, openai("Budget has been exceeded! Current cost: 10.5, Max budget: 10.0", "budget_exceeded", "400"),
        "quota"),
    Row("litellm", 400, openai("litellm.ContextWindowExceededError: x", None, "400"), "context_overflow"),
    Row("litellm", 401, openai("Authentication Error, Invalid proxy server token passed", "token_not_found_in_db", "401"),
        "auth"),
    Row("litellm", 400, openai("litellm.BadRequestError: DeepseekException - {\"error\":{\"message\":\"Insufficient "
                               "Balance\",\"type\":\"unknown_error\",\"param\":null,\"code\":\"invalid_request_error\"}}"),
        "quota"),
    Row("github", 429, {"error": {"code": "RateLimitReached", "message": "Rate limit of 50 per 86400s exceeded for "
                                  "UserByModelByDay. Please wait 4000 seconds before retrying."}},
        "rate_limited", 4_000_000),
    Row("github", 413, {"error": {"code": "tokens_limit_reached", "message": "Request body too large for m model. Max "
                                  "size: 8000 tokens."}}, "context_overflow"),
    Row("github", 403, {"message": "You have exceeded a secondary rate limit. Please wait a few minutes."},
        "rate_limited"),
    Row("cloudflare", 429, {"success": False, "errors": [{"code": 3040, "message": "Capacity temporarily exceeded"}],
                            "result": None}, "rate_limited"),
    Row("cloudflare", 524, PAGE % b"A timeout occurred", "timeout"),
    Row("cloudflare", 522, PAGE % b"Connection timed out", "timeout"),
    Row("cloudflare", 521, PAGE % b"Web server is down", "server"),
    Row("cloudflare", 403, PAGE % b"Attention Required! | Cloudflare", "auth", culprit="place"),
    Row("huggingface", 503, {"error": "Model m is currently loading", "estimated_time": 20.0}, "overloaded", 20_000),
    Row("huggingface", 402, {"error": "You have exceeded your monthly included credits"}, "quota"),
    Row("cohere", 429, {"message": "You are using a Trial key, which is limited to 1000 API calls / month."}, "quota"),
    Row("cerebras", 429, {"message": "Tokens per minute limit exceeded - too many tokens processed.", "param": "quota",
                          "type": "too_many_tokens_error", "code": "token_quota_exceeded"}, "rate_limited"),
    Row("cerebras", 429, {"message": "Tokens per day limit exceeded - too many tokens processed.", "param": "quota",
                          "type": "too_many_tokens_error", "code": "token_quota_exceeded"}, "quota"),
    Row("together", 429, {"error": {"message": "You have reached the rate limit specific to this model.",
                                    "type": "model_rate_limit", "param": None, "code": None}}, "rate_limited"),
    Row("together", 422, {"error": {"message": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= "
                                    "9000", "type": "invalid_request_error"}}, "context_overflow"),
    Row("fireworks", 412, {"error": {"message": "Account x is suspended, possibly due to reaching the monthly spending "
                                     "limit", "code": "PRECONDITION_FAILED"}}, "quota"),
    Row("fireworks", 404, {"error": {"message": "Model not found, inaccessible, and/or not deployed",
                                     "code": "NOT_FOUND"}}, "unknown_model"),
    Row("groq", 400, openai("The model `m` has been decommissioned and is no longer supported.", "invalid_request_error", "model_decommissioned"), "unknown_model"),
    Row("groq", 400, openai("The model `m` requires terms acceptance.", "invalid_request_error", "model_terms_required"), "unknown_model"),
    Row("copilot", 400, openai("The requested model is not supported.", None, "model_not_supported"), "unknown_model"),
    Row("huggingface", 410, {"error": "The requested model is deprecated and no longer supported by provider x."}, "unknown_model"),
    Row("openai", 400, openai("Your organization must be verified to stream this model.", "invalid_request_error", "unsupported_value", "stream"), "bad_request", culprit="stream"),
    Row("a proxy", 407, PAGE % b"Proxy Authentication Required", "auth", culprit="place"),
    # -- local servers
    Row("ollama", 404, {"error": "model 'm' not found"}, "unknown_model"),
    Row("ollama", 503, {"error": "server busy, please try again.  maximum pending requests exceeded"}, "overloaded"),
    Row("ollama", 500, {"error": "llama runner process has terminated: exit status 2"}, "server"),
    Row("ollama", 400, {"error": "registry.ollama.ai/library/m does not support tools"}, "bad_request"),
    Row("vllm", 400, {"object": "error", "message": "This model's maximum context length is 9000 tokens. However, you "
                      "requested 9100 tokens (100 in the messages, 9000 in the completion).", "type": "BadRequestError",
                      "param": None, "code": 400}, "context_overflow"),
    Row("vllm", 400, {"object": "error", "message": "max_tokens must be at least 1, got -186.", "type": "BadRequestError",
                      "param": None, "code": 400}, "context_overflow"),
    Row("vllm", 404, {"object": "error", "message": "The model `m` does not exist.", "type": "NotFoundError",
                      "param": None, "code": 404}, "unknown_model"),
    Row("sglang", 400, {"object": "error", "message": "The input (9001 tokens) is longer than the model's context length "
                        "(9000 tokens).", "type": "BadRequestError", "code": 400}, "context_overflow"),
    Row("llama.cpp", 503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}},
        "overloaded"),
    Row("llama.cpp", 400, {"error": {"code": 400, "message": "the request exceeds the available context size (9000 "
                                     "tokens), try increasing it", "type": "exceed_context_size_error",
                                     "n_prompt_tokens": 9001, "n_ctx": 9000}}, "context_overflow"),
    Row("llama.cpp", 501, {"error": {"code": 501, "message": "This server does not support embeddings.",
                                     "type": "not_supported_error"}}, "bad_request"),
    Row("llama_cpp.server", 400, openai("This model's maximum context length is 9000 tokens", "invalid_request_error",
                                        "context_length_exceeded", "messages"), "context_overflow"),
    Row("llama_cpp.server", 500, openai("Requested tokens (9001) exceed context window of 9000",
                                        "internal_server_error"), "context_overflow"),
    Row("lmstudio", 400, {"error": "Trying to keep the first 9001 tokens when context the overflows. However, the model is "
                          "loaded with context length of only 9000 tokens, which is not enough."}, "context_overflow"),
    Row("lmstudio", 404, openai("No models loaded. Please load a model.", "invalid_request_error", "model_not_found",
                                "model"), "unknown_model"),
    Row("tgi", 429, {"error": "Model is overloaded", "error_type": "overloaded"}, "overloaded"),
    Row("anthropic", 404, anthropic("not_found_error", "claude-9 is not here"), "unknown_model"),
    Row("anthropic", 404, anthropic("not_found_error", "Not Found"), "bad_request"),
    Row("gemini", 404, google(404, "NOT_FOUND", "Requested entity was not found."), "unknown_model"),
    # -- names of the request's own
    Row("openai", 400, openai("Invalid schema for function 'monthly_quota_report': In context=('properties', 'billing'), "
                              "schema must have a 'type' key.", "invalid_request_error", "invalid_function_parameters",
                              "tools[0].function.parameters"), "bad_request", culprit="tools[0].function.parameters"),
    Row("openai", 400, openai("Invalid schema for function 'moderation_flagged': 'x' is not valid", "invalid_request_error",
                              "invalid_function_parameters", "tools[0].function.parameters"), "bad_request",
        culprit="tools[0].function.parameters"),
    Row("anthropic", 400, anthropic("invalid_request_error", "tools.0.custom.input_schema.properties.credits: JSON schema is "
                                    "invalid"), "bad_request", culprit="tools.0.custom.input_schema.properties.credits"),
    Row("anthropic", 400, anthropic("invalid_request_error", "Unknown tool `usage_limit`"), "bad_request"),
    # -- allowances, in words that speak of the rate too
    Row("whoever", 429, openai("Your monthly quota is used up"), "quota"),
    Row("whoever", 429, openai("Monthly token quota exceeded"), "quota", 5_000, headers={"retry-after": "5"}),
    Row("whoever", 429, openai("Token quota exhausted for this billing period"), "quota"),
    Row("whoever", 429, anthropic("rate_limit_error", "You have reached your monthly spend limit"), "quota"),
    Row("whoever", 429, openai("Weekly limit reached. Resets in 3 days."), "quota", 259_200_000),
    Row("whoever", 429, openai("You have used all of your free tokens for today"), "quota"),
    Row("openrouter", 403, {"error": {"code": 403, "message": "Key limit exceeded (total limit). Manage it using "
                                      "https://openrouter.example/settings/keys"}}, "quota"),
    Row("whoever", 403, openai("Your account has been suspended for unpaid invoices"), "quota"),
    Row("anthropic", 400, anthropic("invalid_request_error", "This organization has been disabled."), "auth"),
    # -- limits in the header that the IETF drafts
    Row("draft 10", 429, openai("x"), "rate_limited", 30_000,
        headers={"ratelimit": '"burst";r=7;t=1, "default";r=0;t=30'}),
    Row("draft 7", 429, openai("x"), "rate_limited", 30_000, headers={"ratelimit": "limit=100, remaining=0, reset=30"}),
    Row("draft 10", 429, openai("x"), "rate_limited", headers={"ratelimit": '"default";r=3;t=30'}),
    # -- whatever
    Row("problem+json", 429, {"type": "about:blank", "title": "Too Many Requests", "status": 429}, "rate_limited"),
    Row("apigee", 429, {"fault": {"faultstring": "Rate limit quota violation. Quota limit exceeded.", "detail": {
        "errorcode": "policies.ratelimit.QuotaViolation"}}}, "rate_limited"),
    Row("a stream", 429, b'data: {"error": {"message": "slow down, try again in 3s", "code": 429}}\n\n',
        "rate_limited", 3_000),
    Row("gzip", 400, gzip.compress(json.dumps(openai("x", None, "context_length_exceeded")).encode()),
        "context_overflow"),
    Row("nothing", 429, b"", "rate_limited"),
    Row("nothing", 502, b"", "server"),
    Row("words", 400, b"prompt is too long", "context_overflow"),
    Row("words", 403, b"error code: 1020", "auth"),
    Row("nginx", 413, PAGE % b"413 Request Entity Too Large", "context_overflow"),
    Row("nginx", 504, PAGE % b"504 Gateway Time-out", "timeout"),
    Row("nginx", 404, PAGE % b"404 Not Found", "bad_request"),
    Row("a proxy", 451, b"", "auth"),
    Row("a status in prose", 400, openai("upstream said HTTP 500, then 429 rate limit"), "bad_request"),
    Row("a status in prose", 404, openai("HTTP 503: context window"), "bad_request"),
    Row("no throttling", 400, openai("429 tokens are not enough for reasoning_effort"), "bad_request"),
    Row("llama-cpp-python", 500, {"error": {"message": "2 validation errors:\n  {'type': 'literal_error', 'loc': ('body', 'messages', 1, 'ChatCompletionRequestUserMessage', 'role'), 'msg': \"Input should be 'user'\", 'input': 'assistant'}\n  {'type': 'string_type', 'loc': ('body', 'messages', 1, 'ChatCompletionRequestAssistantMessage', 'content'), 'msg': 'Input should be a valid string', 'input': None}", "type": "internal_server_error", "param": None, "code": None}}, "bad_request", culprit="null content"),
    Row("llama-cpp-python", 500, {"error": {"message": "[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {}}]", "type": "internal_server_error", "param": None, "code": None}}, "bad_request"),
    Row("llama-cpp-python", 500, {"error": {"message": "llama_decode returned -1", "type": "internal_server_error", "param": None, "code": None}}, "server"),
]  # fmt: skip
