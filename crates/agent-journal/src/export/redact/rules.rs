//! Rules for secrets that are recognized by their form, in two tables: tokens with a known prefix,
//! and patterns for secrets without one.

use TokenAlphabet::{Alnum, Base64, Dotted, Hex, Upper, Word};
use TokenCheck::{Form, Random, Value};

/// A kind of token with a known prefix.
pub(super) struct TokenKind {
    /// The name of the kind in placeholders and reports.
    pub(super) name: &'static str,
    /// The prefix, case-sensitive.
    pub(super) prefix: &'static str,
    /// The characters after the prefix.
    pub(super) body: TokenAlphabet,
    /// The minimum number of characters after the prefix.
    pub(super) min: usize,
    /// The maximum number of characters after the prefix. If it equals the minimum, a longer text
    /// is not a token.
    pub(super) max: usize,
    /// The condition that the token must also meet.
    pub(super) check: TokenCheck,
}

/// The characters of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenAlphabet {
    Alnum,
    Upper,
    Hex,
    /// Letters, digits, `_` and `-`.
    Word,
    /// Letters, digits, `_`, `-` and dots.
    Dotted,
    Base64,
}

impl TokenAlphabet {
    pub(super) fn contains_byte(self, byte: u8) -> bool {
        match self {
            Alnum => byte.is_ascii_alphanumeric(),
            Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Hex => byte.is_ascii_hexdigit(),
            Word => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Base64 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
            }
        }
    }
}

/// The condition that a text with the right form must meet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenCheck {
    /// The form is unmistakable. The text must not be an example.
    Form,
    /// The text must also look random.
    Random,
    /// The text is in the position of a secret. It must not be an example or code.
    Value,
}

const fn token(
    name: &'static str,
    prefix: &'static str,
    body: TokenAlphabet,
    length: (usize, usize),
    check: TokenCheck,
) -> TokenKind {
    TokenKind { name, prefix, body, min: length.0, max: length.1, check }
}

/// Tokens that are recognized by their prefix.
pub(super) const TOKENS: &[TokenKind] = &[
    token("age-key", "AGE-SECRET-KEY-1", Upper, (50, 62), Form),
    token("aws-key-id", "AKIA", Upper, (16, 16), Form),
    token("aws-key-id", "ASIA", Upper, (16, 16), Form),
    token("aws-key-id", "ABIA", Upper, (16, 16), Form),
    token("aws-key-id", "ACCA", Upper, (16, 16), Form),
    token("github-token", "ghp_", Alnum, (30, 255), Form),
    token("github-token", "gho_", Alnum, (30, 255), Form),
    token("github-token", "ghu_", Alnum, (30, 255), Form),
    token("github-token", "ghs_", Alnum, (30, 255), Form),
    token("github-token", "ghr_", Alnum, (30, 255), Form),
    token("github-token", "github_pat_", Word, (22, 255), Form),
    token("gitlab-token", "glpat-", Dotted, (20, 300), Form),
    token("gitlab-token", "gldt-", Word, (20, 64), Form),
    token("gitlab-token", "glrt-", Dotted, (20, 300), Form),
    token("gitlab-token", "glcbt-", Word, (20, 64), Form),
    token("gitlab-token", "glptt-", Word, (20, 64), Form),
    token("gitlab-token", "glft-", Word, (20, 64), Form),
    token("gitlab-token", "glsoat-", Word, (20, 64), Form),
    token("gitlab-token", "glagent-", Word, (40, 64), Form),
    token("slack-token", "xoxa-", Word, (10, 250), Form),
    token("slack-token", "xoxb-", Word, (10, 250), Form),
    token("slack-token", "xoxc-", Word, (10, 250), Form),
    token("slack-token", "xoxd-", Base64, (10, 400), Form),
    token("slack-token", "xoxe-", Word, (10, 250), Form),
    token("slack-token", "xoxe.xox", Dotted, (10, 250), Form),
    token("slack-token", "xoxo-", Word, (10, 250), Form),
    token("slack-token", "xoxp-", Word, (10, 250), Form),
    token("slack-token", "xoxr-", Word, (10, 250), Form),
    token("slack-token", "xoxs-", Word, (10, 250), Form),
    token("slack-token", "xapp-", Word, (20, 250), Form),
    token("anthropic-key", "sk-ant-", Word, (20, 200), Form),
    token("openai-key", "sk-proj-", Word, (20, 250), Form),
    token("openai-key", "sk-svcacct-", Word, (20, 250), Form),
    token("openai-key", "sk-admin-", Word, (20, 250), Form),
    token("openai-key", "sk-or-v1-", Word, (20, 250), Form),
    token("openai-key", "sk-", Word, (20, 250), Random),
    token("google-key", "AIza", Word, (35, 35), Form),
    token("google-token", "ya29.", Word, (20, 2000), Form),
    token("google-token", "1//0", Word, (30, 200), Form),
    token("google-token", "GOCSPX-", Word, (28, 28), Form),
    token("stripe-key", "sk_live_", Alnum, (10, 250), Form),
    token("stripe-key", "sk_test_", Alnum, (10, 250), Form),
    token("stripe-key", "rk_live_", Alnum, (10, 250), Form),
    token("stripe-key", "rk_test_", Alnum, (10, 250), Form),
    token("stripe-key", "pk_live_", Alnum, (16, 250), Form),
    token("stripe-key", "pk_test_", Alnum, (16, 250), Form),
    token("stripe-key", "whsec_", Base64, (24, 100), Form),
    token("npm-token", "npm_", Alnum, (36, 36), Form),
    token("pypi-token", "pypi-", Word, (50, 400), Form),
    token("crates-token", "cio", Alnum, (32, 32), Random),
    token("huggingface-token", "hf_", Alnum, (30, 60), Random),
    token("huggingface-token", "api_org_", Alnum, (30, 60), Random),
    token("sendgrid-key", "SG.", Dotted, (60, 70), Form),
    token("twilio-key", "SK", Hex, (32, 32), Random),
    token("digitalocean-token", "dop_v1_", Hex, (64, 64), Form),
    token("digitalocean-token", "doo_v1_", Hex, (64, 64), Form),
    token("digitalocean-token", "dor_v1_", Hex, (64, 64), Form),
    token("shopify-token", "shpat_", Hex, (32, 32), Form),
    token("shopify-token", "shpca_", Hex, (32, 32), Form),
    token("shopify-token", "shppa_", Hex, (32, 32), Form),
    token("shopify-token", "shpss_", Hex, (32, 32), Form),
    token("service-key", "lin_api_", Alnum, (24, 250), Random),
    token("service-key", "ntn_", Alnum, (24, 250), Random),
    token("service-key", "secret_", Alnum, (40, 50), Random),
    token("service-key", "sbp_", Hex, (40, 250), Random),
    token("service-key", "dapi", Hex, (32, 32), Random),
    token("service-key", "gsk_", Alnum, (24, 250), Random),
    token("service-key", "xai-", Alnum, (24, 250), Random),
    token("service-key", "pplx-", Alnum, (24, 250), Random),
    token("service-key", "r8_", Alnum, (24, 250), Random),
    token("service-key", "tvly-", Word, (24, 250), Random),
    token("service-key", "figd_", Word, (24, 250), Random),
    token("service-key", "sntrys_", Base64, (24, 500), Random),
    token("service-key", "sntryu_", Hex, (40, 80), Random),
    token("service-key", "dckr_pat_", Word, (20, 250), Random),
    token("service-key", "dckr_oat_", Word, (20, 250), Random),
    token("service-key", "hvs.", Word, (24, 300), Random),
    token("service-key", "hvb.", Word, (24, 300), Random),
    token("service-key", "dp.pt.", Alnum, (24, 250), Random),
    token("service-key", "dp.st.", Dotted, (24, 250), Random),
    token("service-key", "nfp_", Alnum, (24, 250), Random),
    token("service-key", "fo1_", Word, (24, 250), Random),
    token("service-key", "glsa_", Word, (32, 60), Random),
    token("service-key", "glc_", Base64, (32, 400), Random),
    token("service-key", "rubygems_", Hex, (48, 48), Random),
    token("service-key", "pscale_tkn_", Dotted, (30, 80), Random),
    token("service-key", "pscale_pw_", Dotted, (30, 80), Random),
    token("service-key", "PMAK-", Word, (50, 80), Random),
    token("service-key", "NRAK-", Upper, (27, 27), Random),
    token("service-key", "HRKU-", Word, (36, 80), Random),
    token("service-key", "tskey-", Word, (20, 100), Random),
    token("service-key", "ATATT3", Base64, (100, 300), Random),
    token("service-key", "ATCTT3", Base64, (100, 300), Random),
    token("service-key", "ATBB", Alnum, (28, 32), Random),
    token("service-key", "pul-", Hex, (40, 40), Random),
    token("service-key", "CFPAT-", Word, (40, 50), Random),
    token("service-key", "sq0atp-", Word, (22, 22), Random),
    token("service-key", "sq0csp-", Word, (40, 50), Random),
    token("service-key", "EAAA", Word, (56, 70), Random),
    token("service-key", "sl.u.", Word, (100, 1500), Random),
    token("service-key", "LTAI", Alnum, (16, 26), Random),
    token("service-key", "ops_eyJ", Base64, (100, 2000), Random),
    token("service-key", "key-", Hex, (32, 32), Random),
];

/// A pattern for a kind of secret without a known prefix.
pub(super) struct SecretPattern {
    pub(super) name: &'static str,
    /// The word that triggers the pattern, in lower case.
    pub(super) word: &'static str,
    /// The number of bytes before the word at which a match may begin.
    pub(super) back: usize,
    /// The regular expression. Its first group is the secret; without a group the complete match
    /// is.
    pub(super) regex: &'static str,
    pub(super) check: TokenCheck,
}

const fn pattern(
    name: &'static str,
    word: &'static str,
    back: usize,
    regex: &'static str,
    check: TokenCheck,
) -> SecretPattern {
    SecretPattern { name, word, back, regex, check }
}

/// Secrets that are recognized by a pattern.
pub(super) const PATTERNS: &[SecretPattern] = &[
    pattern(
        "webhook",
        "hooks.slack.com",
        8,
        r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{20,}",
        Form,
    ),
    pattern(
        "webhook",
        "api/webhooks/",
        32,
        r"https://(?:[0-9A-Za-z_]+\.)?discord(?:app)?\.com/api/webhooks/[0-9]+/[0-9A-Za-z_\-]{20,}",
        Form,
    ),
    pattern("telegram-token", ":aa", 10, r"(?-u:\b)([0-9]{8,10}:AA[A-Za-z0-9_\-]{32,34})", Form),
    pattern("azure-key", "accountkey=", 0, r"^(?i)AccountKey=([A-Za-z0-9+/=]{40,})", Form),
    pattern(
        "azure-key",
        "sharedaccesskey=",
        0,
        r"^(?i)SharedAccessKey=([A-Za-z0-9+/=]{40,})",
        Form,
    ),
    pattern(
        "azure-key",
        "q~",
        4,
        r"(?-u:\b)([A-Za-z0-9_\-.~]{3}[0-9]Q~[A-Za-z0-9_\-.~]{31,34})",
        Random,
    ),
    pattern(
        "azure-sas",
        "sig=",
        1,
        r#"^(?:[?&;"' \t\r\n]|^)?(?i:sig)=([A-Za-z0-9%+/]{20,}(?:%3[Dd]|=)*)"#,
        Random,
    ),
    pattern(
        "service-key",
        ".atlasv1.",
        14,
        r"(?-u:\b)([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-=]{24,250})",
        Random,
    ),
    pattern("service-key", "-us", 32, r"(?-u:\b)([0-9a-f]{32}-us[0-9]{1,2})(?-u:\b)", Form),
    pattern(
        "aws-secret",
        "aws",
        0,
        r#"^(?i)aws[0-9A-Za-z_.\- ]{0,24}(?:secret|session|sk)[0-9A-Za-z_.\- ]{0,24}[\\"'*]{0,4}[ \t\r\n]*(?:[:=]+|is)[ \t\r\n]*[\\"']{0,4}([A-Za-z0-9/+=]{40,})"#,
        Random,
    ),
    pattern(
        "bearer",
        "bearer",
        0,
        r#"^(?i)bearer(?:[ \t\r\n]+|%20|\\u0020)["']?([A-Za-z0-9_\-.=+/~]{12,})"#,
        Random,
    ),
    pattern(
        "authorization",
        "authorization",
        1,
        r#"^(?i)(?:[^a-z:])?authorization[\\"'*]{0,6}[ \t\r\n]*[:=,][ \t\r\n]*[\\"'`]{0,6}(?:(?:token|apikey|api-key|key|digest|negotiate|bot)[ \t\r\n]+)?([A-Za-z0-9_\-.=+/~]{12,})"#,
        Random,
    ),
    pattern(
        "netrc",
        "login",
        0,
        r#"^(?i)login[ \t\r\n]+["0-9A-Za-z_.@+\-]{1,80}[ \t\r\n]+password[ \t\r\n]+"?([^ \t\r\n"]{3,120})"#,
        Value,
    ),
    pattern(
        "password",
        "identified by",
        0,
        r#"^(?i)identified by[ \t\r\n]+(?:password[ \t\r\n]+)?[\\\\]{0,3}['"]([^ \t\r\n'"]{4,120})"#,
        Value,
    ),
    pattern(
        "url-token",
        "://",
        0,
        r"^://([A-Za-z0-9_\-.~%]{20,})(?::x-oauth-basic|:)?@[0-9A-Za-z_\[]",
        Random,
    ),
];
