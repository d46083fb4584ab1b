//! What secrets look like: a table. A rule is tried only on texts that hold one of its words.

use Check::{Any, Assigned, Mixed};

/// One kind of secret.
pub(super) struct Rule {
    /// Its name in placeholders and reports.
    pub(super) name: &'static str,
    /// Words of which one must be there, in lower case.
    pub(super) words: &'static [&'static str],
    /// The pattern; its first group is the secret, without one the whole match is.
    pub(super) pattern: &'static str,
    /// What else must hold.
    pub(super) check: Check,
}

/// What must hold beyond the pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Nothing: the pattern is unmistakable.
    Any,
    /// It looks random, and not like an example.
    Mixed,
    /// It is the value of a telling name: not code, not a word, not an example.
    Assigned,
}

const fn rule(
    name: &'static str,
    words: &'static [&'static str],
    pattern: &'static str,
    check: Check,
) -> Rule {
    Rule { name, words, pattern, check }
}

/// Names that tell that their value is a secret.
pub(super) const TELLING: &str = r"(?i)(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|auth[_-]?key|credential)s?";

/// Every kind of secret; of two that overlap the earlier in a text holds, then the longer.
pub(super) const RULES: &[Rule] = &[
    rule(
        "private-key",
        &["private key"],
        r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s\\:,.\-]*?(?:-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----|\z)",
        Any,
    ),
    rule("age-key", &["age-secret-key-"], r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}", Any),
    rule(
        "aws-key-id",
        &["akia", "asia", "abia", "acca"],
        r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b",
        Mixed,
    ),
    rule(
        "aws-secret",
        &["aws"],
        r#"(?i)aws[\w.\- ]{0,24}(?:secret|session|sk)[\w.\- ]{0,24}["']?\s*[:=]+\s*["']?([A-Za-z0-9/+=]{40,})"#,
        Mixed,
    ),
    rule(
        "github-token",
        &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        r"\b((?:gh[pousr]_[A-Za-z0-9]{36,255})|(?:github_pat_[A-Za-z0-9_]{22,255}))",
        Any,
    ),
    rule("gitlab-token", &["glpat-", "gldt-", "glrt-"], r"\b(gl(?:pat|dt|rt)-[\w\-]{20,64})", Any),
    rule(
        "slack-token",
        &["xox", "xapp-"],
        r"\b((?:xox[abeoprs]-[A-Za-z0-9-]{10,250})|(?:xapp-\d-[A-Za-z0-9-]{20,250}))",
        Any,
    ),
    rule(
        "webhook",
        &["hooks.slack.com", "api/webhooks/"],
        r"https://(?:hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9+/]{20,}|(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d+/[\w\-]{20,})",
        Any,
    ),
    rule("anthropic-key", &["sk-ant-"], r"\b(sk-ant-[A-Za-z0-9_\-]{20,200})", Any),
    rule(
        "openai-key",
        &["sk-"],
        r"\b(sk-(?:proj-|svcacct-|admin-|or-v1-|lf-)?[A-Za-z0-9_\-]{20,200})",
        Mixed,
    ),
    rule("google-key", &["aiza"], r"\b(AIza[0-9A-Za-z_\-]{35})", Any),
    rule(
        "google-token",
        &["ya29.", "gocspx-"],
        r"\b((?:ya29\.[0-9A-Za-z_\-]{20,500})|(?:GOCSPX-[A-Za-z0-9_\-]{28}))",
        Any,
    ),
    rule(
        "stripe-key",
        &["k_live_", "k_test_", "whsec_"],
        r"\b((?:[srp]k_(?:live|test)_[0-9A-Za-z]{16,200})|(?:whsec_[A-Za-z0-9+/=]{24,100}))",
        Any,
    ),
    rule("npm-token", &["npm_"], r"\b(npm_[A-Za-z0-9]{36})\b", Any),
    rule("pypi-token", &["pypi-"], r"\b(pypi-[A-Za-z0-9_\-]{50,300})", Any),
    rule("crates-token", &["cio"], r"\b(cio[A-Za-z0-9]{32})\b", Mixed),
    rule("huggingface-token", &["hf_"], r"\b(hf_[A-Za-z0-9]{30,60})\b", Mixed),
    rule("sendgrid-key", &["sg."], r"\b(SG\.[\w\-]{20,24}\.[\w\-]{40,46})", Any),
    rule("twilio-key", &["sk"], r"\b(SK[0-9a-f]{32})\b", Mixed),
    rule("telegram-token", &[":aa"], r"\b(\d{8,10}:AA[A-Za-z0-9_\-]{32,34})", Mixed),
    rule(
        "azure-key",
        &["accountkey=", "sharedaccesskey="],
        r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/=]{40,})",
        Any,
    ),
    rule("digitalocean-token", &["_v1_"], r"\b(do[opr]_v1_[a-f0-9]{64})", Any),
    rule("shopify-token", &["shp"], r"\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})", Any),
    rule(
        "service-key",
        &[
            "lin_api_",
            "ntn_",
            "sbp_",
            "dapi",
            "gsk_",
            "xai-",
            "pplx-",
            "r8_",
            "tvly-",
            "figd_",
            "sntrys_",
            "dckr_pat_",
            "hvs.",
            "dp.pt.",
            "nfp_",
            "fo1_",
            "flyv1",
            "pat-",
            "atlasv1",
        ],
        r"\b((?:lin_api_|ntn_|sbp_|dapi|gsk_|xai-|pplx-|r8_|tvly-(?:dev-|prod-)?|figd_|sntrys_|dckr_pat_|hvs\.|dp\.pt\.|nfp_|fo1_|[A-Za-z0-9]{14}\.atlasv1\.)[A-Za-z0-9_\-]{24,250})",
        Mixed,
    ),
    rule(
        "jwt",
        &["eyj"],
        r"\b(eyJ[A-Za-z0-9_\-]{10,}\.eyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,})",
        Any,
    ),
    rule(
        "authorization",
        &["authorization", "bearer", "x-api-key"],
        r#"(?i)(?:authorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)|\bbearer|x-api-key["']?\s*:)\s+["']?([A-Za-z0-9_\-.=+/~]{16,})"#,
        Mixed,
    ),
    rule(
        "url-password",
        &["://"],
        r#"\b[a-zA-Z][a-zA-Z0-9+.\-]{1,20}://[^\s:/@"'<>`]{0,80}:([^\s@/"'<>`]{3,120})@[\w\[]"#,
        Assigned,
    ),
    rule(
        "secret",
        &["password", "passwd", "passphrase", "pwd", "secret", "token", "key", "credential"],
        concat!(
            r"(?i)(?:password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signing[_-]?key|encryption[_-]?key|auth[_-]?key|credential)s?",
            r#"\w{0,24}["'\]]{0,2}[ \t]*(?::=|=>|={1,3}|:)[ \t]*["'`]?([^\s"'`,;<>{}()\[\]|&]{8,200})"#
        ),
        Assigned,
    ),
];
