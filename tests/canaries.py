"""One realistic secret of every kind that redaction promises to catch, for tests which plant them at one
end of the program and search for them at the other. They are put together when asked for: a scanner which
looks for secrets in source code finds none here."""

from __future__ import annotations

import random
import string
import textwrap

_LOWER = string.ascii_lowercase + string.digits
_ALNUM = string.ascii_letters + string.digits
_BASE64 = _ALNUM + "+/"
_URL = _ALNUM + "-_"
_HEX = "0123456789abcdef"
_CAPITALS = string.ascii_uppercase + "234567"


def planted_secrets(seed: int = 0) -> dict[str, str]:
    """A text around one secret, by kind. What must not survive of each is in `needles`."""
    return {kind: text for kind, (text, _) in _planted(seed).items()}


def needles(seed: int = 0) -> dict[str, str]:
    """The part of each planted secret that must be found nowhere afterwards."""
    return {kind: needle for kind, (_, needle) in _planted(seed).items()}


def _planted(seed: int) -> dict[str, tuple[str, str]]:
    source = random.Random(seed)

    def noise(alphabet: str, length: int) -> str:
        # A digit, a small and a capital letter at fixed places: even a short one looks like what it stands
        # for.
        made = [source.choice(alphabet) for _ in range(length)]
        for place, wanted in ((2, string.digits), (4, string.ascii_lowercase), (6, string.ascii_uppercase)):
            fitting = [character for character in alphabet if character in wanted]
            if fitting and length > place:
                made[place] = source.choice(fitting)
        return "".join(made)

    found: dict[str, tuple[str, str]] = {}

    def token(kind: str, prefix: str, alphabet: str, length: int, suffix: str = "") -> None:
        body = noise(alphabet, length)
        found[kind] = (prefix + body + suffix, body)

    def named(kind: str, before: str, value: str, after: str = "") -> None:
        found[kind] = (before + value + after, value)

    token("anthropic", "sk-" + "ant-api03-", _URL, 93, "AA")
    token("openai", "sk-" + "proj-", _URL, 120)
    token("openai-old", "sk-", _ALNUM, 48)
    token("openrouter", "sk-" + "or-v1-", _HEX, 64)
    for prefix in ("AKIA", "ASIA"):
        token("aws-" + prefix.lower(), prefix, _CAPITALS, 16)
    for letter in "pousr":
        token(f"github-gh{letter}", f"gh{letter}" + "_", _ALNUM, 36)
    token("github-pat", "github" + "_pat_", _ALNUM, 82)
    token("gitlab", "glpat" + "-", _URL, 20)
    for letter in "abprs":
        token(f"slack-xox{letter}", f"xox{letter}" + f"-{noise(string.digits, 12)}-", _ALNUM, 24)
    token("slack-app", "xapp" + "-1-A0123456789-", _HEX, 64)
    token("google-api", "AIza" + "Sy", _URL, 33)
    token("google-oauth", "ya29" + ".a0", _URL, 80)
    token("google-secret", "GOCSPX" + "-", _URL, 28)
    token("npm", "npm" + "_", _ALNUM, 36)
    token("pypi", "pypi" + "-AgEIcHlwaS5vcmc", _URL, 120)
    token("huggingface", "hf" + "_", _ALNUM, 34)
    token("docker", "dckr" + "_pat_", _URL, 27)
    token("sendgrid", "SG" + f".{noise(_URL, 22)}.", _URL, 43)
    token("stripe", "sk" + "_live_", _ALNUM, 24)
    token("stripe-restricted", "rk" + "_live_", _ALNUM, 24)
    token("stripe-webhook", "whsec" + "_", _ALNUM, 32)
    token("shopify", "shpat" + "_", _HEX, 32)
    token("twilio", "SK", _HEX, 32)
    token("telegram", noise(string.digits, 10) + ":AA", _URL, 33)
    token("mailgun", "key" + "-", _HEX, 32)
    token("age", "AGE-SECRET" + "-KEY-1", string.ascii_uppercase + string.digits, 58)
    token("tailscale", "tskey" + "-auth-", _ALNUM, 30)
    token("doppler", "dp" + ".pt.", _ALNUM, 43)
    token("vault", "hvs" + ".", _URL, 90)
    token("linear", "lin" + "_api_", _ALNUM, 40)
    token("digitalocean", "dop" + "_v1_", _HEX, 64)
    token("databricks", "dapi", _HEX, 32)
    token("grafana", "glsa" + "_", _ALNUM, 32, "_" + noise(_HEX, 8))
    token("replicate", "r8" + "_", _ALNUM, 37)
    token("groq", "gsk" + "_", _ALNUM, 52)
    token("supabase", "sbp" + "_", _HEX, 40)
    token("notion", "ntn" + "_", _ALNUM, 46)

    signature = noise(_URL, 43)
    jwt = ".".join(("eyJ" + "hbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJ" + noise(_URL, 60), signature))
    found["jwt"] = (jwt, signature)
    key_line = noise(_BASE64, 64)
    lines = [noise(_BASE64, 64), key_line, noise(_BASE64, 48)]
    for kind, label in (("pem", "RSA PRIVATE"), ("openssh", "OPENSSH PRIVATE"), ("pkcs8", "PRIVATE")):
        found[kind] = (
            "\n".join([f"-----BEGIN {label} " + "KEY-----", *lines, f"-----END {label} KEY-----"]),
            key_line,
        )
    found["pem-cut"] = ("\n".join(["-----BEGIN EC PRIVATE " + "KEY-----", *lines]), key_line)
    account = "\\n".join(["-----BEGIN PRIVATE " + "KEY-----", *lines, "-----END PRIVATE KEY-----", ""])
    found["service-account"] = (f'{{"type": "service_account", "private_key": "{account}"}}', key_line)

    password = noise(_LOWER, 14)
    for scheme in ("postgres", "mysql", "mongodb+srv", "redis", "amqp", "https"):
        secret = noise(_LOWER, 14)
        found[f"url-{scheme}"] = (f"{scheme}://app:{secret}@db.example.net:5432/main", secret)
    named("slack-webhook", "https://hooks.slack.com" + "/services/T0AB12CD3/B0EF45GH6/", noise(_ALNUM, 24))
    named("discord-webhook", "https://discord.com/api" + "/webhooks/123456789012345678/", noise(_URL, 68))
    named(
        "azure-account",
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=",
        noise(_BASE64, 86),
        "==;Suffix=y",
    )
    named(
        "azure-sas",
        "https://x.blob.core.windows.net/c?sv=2024-01-01&se=2026&sig=",
        noise(_ALNUM, 43),
        "%3D&sp=r",
    )
    named("bearer", "Authorization: Bearer ", noise(_ALNUM, 40))
    named("basic", "Authorization: Basic ", noise(_ALNUM, 31) + "=")
    named("curl-user", "curl -s -u deploy:", noise(_LOWER, 16), " https://example.net/")
    named("cookie", "Cookie: theme=dark; session=", noise(_ALNUM, 40), "; lang=en")
    named("set-cookie", "Set-Cookie: connect.sid=s%3A", noise(_ALNUM, 40), "; Path=/; HttpOnly")

    named("aws-secret", "aws_secret_access_key = ", noise(_BASE64, 40))
    named("dotenv", "DB_PASSWORD=", password)
    named("pgpassword", "PGPASSWORD=", noise(_LOWER, 12), " psql -h db")
    named("export", "export API_KEY=", noise(_HEX, 32))
    named("json-api-key", '{"apiKey": "', noise(_ALNUM, 32), '"}')
    named("json-client-secret", '{"client_secret": "', noise(_URL, 40), '"}')
    named("yaml-password", "database:\n  password: ", noise(_LOWER, 12), "\n  port: 5432\n")
    named("option", "deploy --host x --password ", noise(_LOWER, 12), " --verbose")
    named("option-equals", "deploy --token=", noise(_ALNUM, 32), " --verbose")
    named("python", 'client = Client(auth_token="', noise(_ALNUM, 32), '")')
    named("query", "https://example.net/v1?access_token=", noise(_ALNUM, 32), "&page=2")
    named("netrc", "machine example.net login me password ", noise(_ALNUM, 20))
    named("maven", "<password>", noise(_LOWER, 14), "</password>")
    named("prose", "the API key is ", noise(_ALNUM, 32), ", do not lose it")
    named("private", "note <private>", " ".join(textwrap.wrap(noise(_LOWER, 24), 6)), "</private> end")
    return found
