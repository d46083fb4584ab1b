//! What is taken out and what stays, measured on a set. The secrets are made up; they are put
//! together here so that no scanner takes this file for a leak.

mod generated;

use self::generated::{ALPHABETS, Dice};
use super::*;

/// Lines with one secret each: what stands before it, its two halves, what stands after it.
const SECRETS: &[(&str, &str, &str, &str)] = &[
    ("export GITHUB_TOKEN=", "ghp_", "R7tq2LmX9vBz4KdW1nYc8HsJ5pFgA3eU6oTi", ""),
    ("pat ", "github_pat_", "11ABCDEFG0aZxYwVuTsRqP_9oNmLkJiHgFeDcBa", " works"),
    ("-H 'PRIVATE-TOKEN: ", "glpat-", "Zx8Qw2Er5Ty7Ui0Op3As", "'"),
    ("ANTHROPIC_API_KEY=", "sk-ant-", "api03-Qm4xZt8Lk2Vb6Nc0Hd5Gf9Js3Rp7Ty1We", ""),
    ("key = \"", "sk-proj-", "9fK2mX7vQ4tL8zB1nW6cY3hD5sG0pJrAeUoT", "\""),
    ("", "AKIA", "QZ7XPLM4TNV2RKWD", ""),
    ("aws_secret_access_key = ", "wJ4r9XUtnFEMI/", "K7MDENG/bPxRfi2YqLzT8vHs0C", ""),
    ("AWS_SESSION_TOKEN=", "FwoGZXIvYXdzEJr9a2k7", "Lm3Qx8Vt5Zn1Bc6Hd0Gf4Js2Rp9Ty7We", ""),
    ("slack: ", "xoxb-", "2938471029-8372615093-Zk4Lm9Qx2Vt7Bn5C", ""),
    ("post to ", "https://hooks.slack.com/services/", "T02ABCD9E/B03FGHI8J/kLm4Nq7Rt2Vx5Zb8", ""),
    ("maps: ", "AIza", "SyD3k9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2Ty", ""),
    ("", "ya29.", "a0AfB9k2Lm3Qx8Vt5Zn1Bc6Hd0Gf4", ""),
    ("STRIPE=", "sk_live_", "51HqLm3Qx8Vt5Zn1Bc6Hd0Gf", ""),
    ("//registry.npmjs.org/:_authToken=", "npm_", "k9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2TyWe3Ua", ""),
    ("password = ", "pypi-", "AgEIcHlwaS5vcmcCJDk5Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2TyWe3UaKz", ""),
    ("HF_TOKEN=", "hf_", "kLm2QxVtZnBcHdGfJsRpTyWeUaKz9473218650", ""),
    ("", "SG.", "k9Lm2Qx8Vt5Zn1Bc6Hd0Gf.Js7Rp2TyWe3UaKz9k9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7", ""),
    ("bot ", "739184", "6205:AAHk9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2TyW", ""),
    (
        "AccountName=a;AccountKey=",
        "k9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2TyWe3Ua",
        "Kz9k9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2TyWe3UaKz9==",
        ";",
    ),
    ("", "dop_v1_", "3f9a1c7e5b2d8064f1a9c3e7b5d20864f3a9c1e7b5d28064f1a9c3e7b5d20864", ""),
    ("LINEAR=", "lin_api_", "k9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2TyWe3UaKz9k", ""),
    ("GROQ=", "gsk_", "k9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7Rp2TyWe3UaKz9kLm2QxVt5", ""),
    ("cookie ", "eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiI5MzQ4MjcifQ.k9Lm2Qx8Vt5Zn1Bc6Hd0Gf4Js7", ""),
    ("Authorization: Bearer ", "k9Lm2Qx8Vt5", "Zn1Bc6Hd0Gf4Js7Rp2TyWe3Ua", ""),
    ("curl -H \"x-api-key: ", "k9Lm2Qx8Vt5Zn", "1Bc6Hd0Gf4Js7", "\""),
    ("DATABASE_URL=postgres://app:", "hx7!Qm", "2vT9z", "@db.internal:5432/app"),
    ("redis://:", "k9Lm2Qx8", "Vt5Zn1", "@cache:6379/0"),
    ("mongodb+srv://root:", "T7g!kP", "2w9q", "@cluster0.abcde.mongodb.net"),
    ("DB_PASSWORD=", "tr0ub4", "dor&3x", ""),
    ("password: \"", "Gx7#mQ2v", "T9zL", "\""),
    ("client_secret: ", "k9Lm2Qx8Vt5", "Zn1Bc6Hd0", ""),
    ("\"apiKey\": \"", "3f9a1c7e5b2d8064", "f1a9c3e7b5d20864", "\","),
    ("MY_SECRET_TOKEN=", "8c1f0a7be3", "d94265", ""),
    ("PGPASSWORD=", "s3cr3t-", "Kd92mQx7", " psql"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "MIIEpAIBAAKCAQEAk9Lm2Qx8\n",
        "Vt5Zn1Bc6Hd0Gf4Js7=\n",
        "-----END RSA PRIVATE KEY-----",
    ),
    (
        "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "b3BlbnNzaC1rZXktdjEAAAAA",
        "k9Lm2Qx8Vt5Zn1\n",
        "-----END OPENSSH PRIVATE KEY-----",
    ),
    ("age: ", "AGE-SECRET-KEY-1", "QX8VT5ZN7BC6HD0GF4JS7RP2TYWE3UAKZ9K9LM2QX8VT5ZN7BC6HD0GF4J", ""),
];

/// What an ordinary session is full of, and no secret.
const INNOCENT: &[&str] = &[
    "let token = self.next_token()?;",
    "password: string;",
    "privateKey: Uint8Array;",
    "const password = process.env.DB_PASSWORD;",
    "api_key=os.environ[\"API_KEY\"]",
    "API_KEY=your_api_key_here",
    "GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "AWS key AKIAIOSFODNN7EXAMPLE in the docs",
    "postgres://user:password@localhost/db",
    "postgres://${USER}:${PASSWORD}@localhost/db",
    "\"cache_creation_input_tokens\": 48213",
    "max_tokens = 4096, total_tokens: 1024000",
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "commit 3f9a1c7e5b2d8064f1a9c3e7b5d20864f3a9c1e7",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "session 06cc67e8-90ab-4cde-8f01-23456789abcd",
    "tokenizer: Tokenizer::new(config.token_size)",
    "key: value",
    "\"key\": \"ArrowDown\"",
    "secret: Option<String>,",
    "fn password_hash(password: &str) -> String {",
    "The token is stored in the keychain: never in a file.",
    "keyboard.press(\"Control+A\")",
    "private_key_path: ~/.ssh/id_ed25519",
    "credentials: include",
    "Bearer token authentication is described below",
    "Authorization: Bearer <token>",
    "authorization: `Bearer ${accessToken}`",
    "token_type: access_token_v2",
    "https://example.com/path/to/page?ref=abc",
    "git@github.com:sam/web.git",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
    "sk-learn is a library, sk-toggleable__content is a class",
    "password=hunter",
    "tokens.map((token) => token.value)",
    "csrf_token: csrfToken.value",
    "key = config.get(\"key\")",
    "secretName: my-app-secret-v2",
    "passwordField.sendKeys(user.password1)",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "npm_config_registry=https://registry.npmjs.org",
];

/// Values of each kind and place.
const TIMES: usize = if cfg!(debug_assertions) { 40 } else { 400 };

/// The seeds of the generated set.
const SEEDS: [u64; 3] = [1, 2026, 77_031];

fn cleaned(text: &str) -> String {
    Redactor::of_secrets().redact_text(text).into_owned()
}

/// Whether a text has eight characters in a row of a secret.
fn leaks(clean: &str, secret: &str) -> bool {
    let secret =
        secret.strip_prefix("https://").map_or(secret, |rest| rest.rsplit('/').next().unwrap());
    let width = secret.len().min(8);
    (0..=secret.len() - width)
        .filter_map(|at| secret.get(at..at + width))
        .any(|part| clean.contains(part))
}

/// Counts by kind: how many of how many were missed, and one that was.
#[derive(Default)]
struct Recall(BTreeMap<String, (usize, usize, String)>);

impl Recall {
    fn add(&mut self, kind: &str, text: &str, secrets: &[String]) {
        let clean = cleaned(text);
        let count = self.0.entry(kind.to_owned()).or_default();
        count.1 += 1;
        if secrets.iter().any(|secret| leaks(&clean, secret)) {
            count.0 += 1;
            count.2 = clean;
        }
    }

    /// Every kind is found in all but so many of a thousand cases.
    #[track_caller]
    fn at_most(&self, per_thousand: usize) {
        let missed =
            self.0.iter().filter(|(_, (missed, all, _))| missed * 1000 > per_thousand * all);
        let missed: Vec<_> = missed.collect();
        assert!(missed.is_empty(), "{missed:#?}");
    }
}

#[test]
fn tokens_with_a_form_are_found_wherever_they_stand() {
    let mut recall = Recall::default();
    for seed in SEEDS {
        let mut dice = Dice::new(seed);
        for kind in generated::TOKENS {
            for place in generated::TOKEN_PLACES {
                for _ in 0..TIMES / 8 {
                    let secret = generated::token(kind, &mut dice);
                    recall.add(kind, &place.replace('@', &secret), &[secret]);
                }
            }
        }
    }
    recall.at_most(5);
}

#[test]
fn random_values_are_found_by_their_name_in_every_notation() {
    let mut recall = Recall::default();
    for seed in SEEDS {
        let mut dice = Dice::new(seed);
        for (kind, place) in generated::PLACES {
            for alphabet in ALPHABETS.iter().filter(|alphabet| generated::fits(kind, alphabet)) {
                for length in [16, 20, 24, 32, 40] {
                    for _ in 0..TIMES / 8 {
                        let secret = dice.value(alphabet, length);
                        recall.add(kind, &place.replacen('@', &secret, 1), &[secret]);
                    }
                }
            }
        }
    }
    recall.at_most(10);
}

#[test]
fn random_tokens_do_not_pass_for_names_of_types() {
    let mut recall = Recall::default();
    let mut dice = Dice::new(6);
    for alphabet in ALPHABETS {
        for length in [12, 16, 20, 24, 32, 40] {
            for number in 0..5 * TIMES {
                let secret = dice.value(alphabet, length);
                let line = format!("API_TOKEN_{number}={secret}");
                recall.add(&format!("{alphabet}, {length}"), &line, &[secret]);
            }
        }
    }
    recall.at_most(10);
}

#[test]
fn secrets_with_a_form_of_their_own_are_found() {
    let mut recall = Recall::default();
    for seed in SEEDS {
        let mut dice = Dice::new(seed);
        for kind in generated::SPECIAL {
            for _ in 0..5 * TIMES {
                let (text, secrets) = generated::special(kind, &mut dice);
                recall.add(kind, &text, &secrets);
            }
        }
    }
    recall.at_most(10);
}

#[test]
fn private_keys_are_found_whole_cut_numbered_and_escaped() {
    let mut recall = Recall::default();
    let mut dice = Dice::new(3);
    for kind in generated::KEYS {
        for shape in generated::KEY_SHAPES {
            for _ in 0..TIMES / 4 {
                let (text, secrets) = generated::private_key(kind, shape, &mut dice);
                recall.add(&format!("{kind}key, {shape}"), &text, &secrets);
                let clean = cleaned(&text);
                assert!(
                    clean.starts_with("this is it:") && clean.ends_with("and more words"),
                    "{clean}"
                );
            }
        }
    }
    recall.at_most(0);
}

#[test]
fn innocent_lines_stay_as_they_are() {
    let mut taken = Vec::new();
    let mut all = 0;
    for seed in SEEDS {
        let mut dice = Dice::new(seed);
        for _ in 0..500 * TIMES {
            let line = generated::innocent(&mut dice);
            all += 1;
            if cleaned(&line) != line {
                taken.push(line);
            }
        }
    }
    assert!(taken.len() * 10_000 <= all, "{} of {all}: {taken:#?}", taken.len());
    let taken: Vec<&&str> = INNOCENT.iter().filter(|text| !find_secrets(text).is_empty()).collect();
    assert!(taken.is_empty(), "{taken:#?}");
}

#[test]
fn secrets_that_were_written_by_hand_are_found() {
    for (before, half, rest, after) in SECRETS {
        let text = format!("{before}{half}{rest}{after}");
        let clean = cleaned(&text);
        assert!(!leaks(&clean, rest.trim_end()), "{clean}");
    }
}

#[test]
fn a_placeholder_is_the_same_wherever_the_secret_stands_and_is_no_secret_itself() {
    let secret = format!("ghp_{}", "R7tq2LmX9vBz4KdW1nYc8HsJ5pFgA3eU6oTi");
    let mut redactor = Redactor::default();
    let first = redactor.redact_text(&format!("a {secret}")).into_owned();
    let second = redactor.redact_text(&format!("{secret} b {secret}")).into_owned();
    let placeholder = first.strip_prefix("a ").unwrap();
    assert!(placeholder.starts_with("[redacted:github-token:"), "{placeholder}");
    assert_eq!(second, format!("{placeholder} b {placeholder}"));
    assert_eq!(redactor.replacement_counts()["github-token"], 3);
    let again = redactor.redact_text(&second).into_owned();
    assert_eq!(again, second);
}

#[test]
fn homes_and_their_owner_leave_no_trace() {
    let mut redactor = Redactor::new(Path::new("/home/samantha"));
    let mut check = |text: &str, expected: &str| {
        assert_eq!(redactor.redact_text(text), expected, "{text}");
    };
    check("/home/samantha/web/a.rs", "~/web/a.rs");
    check("cd /Users/kim && ls", "cd ~ && ls");
    check(r"C:\Users\Kim\web", r"~\web");
    check("file:///home/samantha/x", "file://~/x");
    check(
        "~/.claude/projects/-home-samantha-web/1.jsonl",
        "~/.claude/projects/-home-user-web/1.jsonl",
    );
    check("thanks, samantha!", "thanks, user!");
    check("https://example.com/home/dashboard", "https://example.com/home/dashboard");
    check("expect(url).toBe('/home')", "expect(url).toBe('/home')");
}

#[test]
fn json_keeps_its_order_and_its_numbers() {
    let mut redactor = Redactor::default();
    let mut check = |text: &str, expected: &str| {
        let mut json: Json = serde_json::from_str(text).unwrap();
        redactor.redact_json(&mut json);
        assert_eq!(json.as_json_str(), expected);
    };
    check(
        r#"{"z":1.0,"cmd":"cd /home/kim\nls","a":[true,"b\"c"]}"#,
        r#"{"z":1.0,"cmd":"cd ~\nls","a":[true,"b\"c"]}"#,
    );
    check(
        r#"{"password":"k9Lm2Qx8Vt5Zn","name":"k9Lm2Qx8Vt5Zn"}"#,
        r#"{"password":"[redacted:secret]","name":"k9Lm2Qx8Vt5Zn"}"#,
    );
    check(r#"{"path":"C:\\Users\\kim\\x"}"#, r#"{"path":"~\\x"}"#);
}
