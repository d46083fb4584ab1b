//! Secrets and innocent lines made from a seed: kinds × places × lengths. Nothing here is a
//! secret; tokens are put together at run time, so that no scanner takes this file for a leak.

/// Random numbers that are the same for the same seed.
pub(crate) struct Dice(u64);

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &str = "0123456789";
const HEX: &str = "0123456789abcdef";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Words that names and types are made of.
pub(crate) const WORDS: &[&str] = &[
    "user", "access", "refresh", "next", "array", "buffer", "client", "server", "request",
    "response", "service", "account", "session", "config", "default", "manager", "handler",
    "provider", "result", "error", "stream", "parser", "lexer", "kind", "value", "option",
    "string", "number", "state", "store", "reader", "writer", "index", "cache", "queue", "worker",
    "thread", "socket", "header", "payload", "pointer", "filter", "builder", "factory", "context",
    "secret", "token", "password", "policy", "module", "schema", "record", "message", "template",
];

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    pub(crate) fn pick<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }

    fn of(&mut self, alphabet: &str, length: usize) -> String {
        let bytes = alphabet.as_bytes();
        (0..length).map(|_| char::from(bytes[self.below(bytes.len())])).collect()
    }

    pub(crate) fn alnum(&mut self, length: usize) -> String {
        self.of(&[LOWER, UPPER, DIGITS].concat(), length)
    }

    pub(crate) fn word(&mut self, length: usize) -> String {
        let begin = self.alnum(1);
        let middle = self.of(&[LOWER, UPPER, DIGITS, "-_"].concat(), length - 2);
        [begin, middle, self.alnum(1)].concat()
    }

    pub(crate) fn base64(&mut self, length: usize) -> String {
        self.of(&[LOWER, UPPER, DIGITS, "+/"].concat(), length)
    }

    pub(crate) fn hex(&mut self, length: usize) -> String {
        self.of(HEX, length)
    }

    /// A value as people and programs make them up, of one of several alphabets.
    pub(crate) fn value(&mut self, alphabet: &str, length: usize) -> String {
        match alphabet {
            "base64" => self.base64(length),
            "base64url" => self.word(length),
            "hex" => self.hex(length),
            "lower and digits" => self.of(&[LOWER, DIGITS].concat(), length),
            "letters" => self.of(&[LOWER, UPPER].concat(), length),
            "small letters" => self.of(LOWER, length),
            "signs" => {
                let middle = self.of(&[LOWER, UPPER, DIGITS, "!@#%^*+~?"].concat(), length - 2);
                [self.alnum(1), middle, self.alnum(1)].concat()
            }
            _ => self.alnum(length),
        }
    }

    /// Words in a row, as names of types and fields have them.
    pub(crate) fn camel(&mut self, words: usize) -> String {
        let mut name = String::new();
        for _ in 0..words {
            let word = self.pick(WORDS);
            name.push_str(&word[..1].to_uppercase());
            name.push_str(&word[1..]);
        }
        name
    }

    fn uuid(&mut self) -> String {
        let parts = [8, 4, 4, 4, 12].map(|length| self.hex(length));
        parts.join("-")
    }
}

/// The alphabets of values.
pub(crate) const ALPHABETS: &[&str] = &[
    "letters and digits",
    "base64",
    "base64url",
    "hex",
    "lower and digits",
    "letters",
    "small letters",
    "signs",
];

/// Tokens that are known by their form: kind, what they begin with, and the rest.
pub(crate) fn token(kind: &str, dice: &mut Dice) -> String {
    let join = |prefix: &[&str], rest: String| [prefix.concat(), rest].concat();
    match kind {
        "AWS key id" => join(&["AK", "IA"], dice.of(BASE32, 16)),
        "AWS temporary key id" => join(&["AS", "IA"], dice.of(BASE32, 16)),
        "GitHub token" => join(&["gh", "p_"], dice.alnum(36)),
        "GitHub app token" => join(&["gh", "s_"], dice.alnum(36)),
        "GitHub fine-grained token" => {
            join(&["github", "_pat_"], format!("{}_{}", dice.alnum(22), dice.alnum(59)))
        }
        "GitLab token" => join(&["gl", "pat-"], dice.word(20)),
        "GitLab runner token" => join(&["gl", "rt-"], dice.word(20)),
        "Slack bot token" => join(
            &["xo", "xb-"],
            format!("{}-{}-{}", dice.of(DIGITS, 12), dice.of(DIGITS, 12), dice.alnum(24)),
        ),
        "Slack user token" => join(
            &["xo", "xp-"],
            format!("{}-{}-{}", dice.of(DIGITS, 12), dice.of(DIGITS, 12), dice.hex(32)),
        ),
        "Slack app token" => join(
            &["xa", "pp-1-"],
            format!("A{}-{}-{}", dice.of(BASE32, 10), dice.of(DIGITS, 13), dice.hex(64)),
        ),
        "Slack webhook" => join(
            &["https://hooks.sl", "ack.com/services/"],
            format!("T{}/B{}/{}", dice.of(BASE32, 9), dice.of(BASE32, 10), dice.alnum(24)),
        ),
        "Discord webhook" => join(
            &["https://disc", "ord.com/api/webhooks/"],
            format!("{}/{}", dice.of(DIGITS, 18), dice.word(68)),
        ),
        "Stripe live key" => join(&["sk", "_live_"], dice.alnum(24)),
        "Stripe test key" => join(&["sk", "_test_"], dice.alnum(99)),
        "Stripe restricted key" => join(&["rk", "_live_"], dice.alnum(24)),
        "Stripe webhook secret" => join(&["wh", "sec_"], dice.alnum(32)),
        "OpenAI key" => join(&["s", "k-"], format!("{}T3BlbkFJ{}", dice.alnum(20), dice.alnum(20))),
        "OpenAI project key" => join(&["s", "k-proj-"], dice.word(120)),
        "Anthropic key" => join(&["s", "k-ant-api03-"], format!("{}AA", dice.word(93))),
        "OpenRouter key" => join(&["s", "k-or-v1-"], dice.hex(64)),
        "Google API key" => join(&["AI", "za"], format!("Sy{}", dice.word(33))),
        "Google OAuth token" => join(&["ya", "29.a0"], dice.word(120)),
        "Google client secret" => join(&["GOC", "SPX-"], dice.word(28)),
        "JWT" => join(
            &["eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", ".eyJ"],
            format!("{}.{}", dice.word(60), dice.word(43)),
        ),
        "JWT, cut" => join(&["eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ", ".eyJ"], dice.word(30)),
        "npm token" => join(&["np", "m_"], dice.alnum(36)),
        "PyPI token" => join(&["py", "pi-AgEIcHlwaS5vcmc"], dice.word(140)),
        "crates.io token" => join(&["c", "io"], dice.alnum(32)),
        "Hugging Face token" => join(&["h", "f_"], dice.alnum(34)),
        "SendGrid key" => join(&["S", "G."], format!("{}.{}", dice.word(22), dice.word(43))),
        "Twilio key" => join(&["S", "K"], dice.hex(32)),
        "DigitalOcean token" => join(&["dop", "_v1_"], dice.hex(64)),
        "Shopify token" => join(&["shp", "at_"], dice.hex(32)),
        "Linear key" => join(&["lin", "_api_"], dice.alnum(40)),
        "Notion token" => join(&["nt", "n_"], dice.alnum(46)),
        "Databricks token" => join(&["da", "pi"], dice.hex(32)),
        "Groq key" => join(&["gs", "k_"], dice.alnum(52)),
        "xAI key" => join(&["xa", "i-"], dice.alnum(80)),
        "Perplexity key" => join(&["pp", "lx-"], dice.alnum(48)),
        "Replicate token" => join(&["r", "8_"], dice.alnum(37)),
        "Docker token" => join(&["dckr", "_pat_"], dice.word(27)),
        "Vault token" => join(&["hv", "s."], dice.word(90)),
        "Doppler token" => join(&["dp", ".pt."], dice.alnum(43)),
        "Netlify token" => join(&["nf", "p_"], dice.alnum(36)),
        "Telegram token" => {
            format!("{}{}:AA{}", 1 + dice.below(9), dice.of(DIGITS, 9), dice.word(33))
        }
        "Azure client secret" => format!("{}8Q~{}", dice.alnum(3), dice.word(34)),
        "Mailchimp key" => format!("{}-us{}", dice.hex(32), 1 + dice.below(20)),
        "Mailgun key" => join(&["ke", "y-"], dice.hex(32)),
        "Grafana token" => join(&["gl", "sa_"], format!("{}_{}", dice.alnum(32), dice.hex(8))),
        "RubyGems key" => join(&["ruby", "gems_"], dice.hex(48)),
        "Tailscale key" => {
            join(&["ts", "key-auth-"], format!("{}-{}", dice.alnum(12), dice.alnum(32)))
        }
        "Terraform token" => format!("{}.atl{}{}", dice.alnum(14), "asv1.", dice.alnum(67)),
        "age key" => {
            join(&["AGE-SEC", "RET-KEY-1"], dice.of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58))
        }
        other => unreachable!("{other} is no kind"),
    }
}

/// The kinds of tokens.
pub(crate) const TOKENS: &[&str] = &[
    "AWS key id",
    "AWS temporary key id",
    "GitHub token",
    "GitHub app token",
    "GitHub fine-grained token",
    "GitLab token",
    "GitLab runner token",
    "Slack bot token",
    "Slack user token",
    "Slack app token",
    "Slack webhook",
    "Discord webhook",
    "Stripe live key",
    "Stripe test key",
    "Stripe restricted key",
    "Stripe webhook secret",
    "OpenAI key",
    "OpenAI project key",
    "Anthropic key",
    "OpenRouter key",
    "Google API key",
    "Google OAuth token",
    "Google client secret",
    "JWT",
    "JWT, cut",
    "npm token",
    "PyPI token",
    "crates.io token",
    "Hugging Face token",
    "SendGrid key",
    "Twilio key",
    "DigitalOcean token",
    "Shopify token",
    "Linear key",
    "Notion token",
    "Databricks token",
    "Groq key",
    "xAI key",
    "Perplexity key",
    "Replicate token",
    "Docker token",
    "Vault token",
    "Doppler token",
    "Netlify token",
    "Telegram token",
    "Azure client secret",
    "Mailchimp key",
    "Mailgun key",
    "Grafana token",
    "RubyGems key",
    "Tailscale key",
    "Terraform token",
    "age key",
];

/// Where a token may stand; `@` is the token.
pub(crate) const TOKEN_PLACES: &[&str] = &[
    "@",
    "use @ for it",
    "TOKEN=@",
    "export SOME_VALUE=@\n",
    "curl -H 'X-Any: @' https://example.org",
    "{\"note\":\"@\"}",
    "{\\\"note\\\":\\\"@\\\"}",
    "first\\n@\\nlast",
    "it is `@`.",
    "- @\n",
    "https://example.org/?x=@&y=1",
    "value%3D@%26y",
    "(@)",
    "<td>@</td>",
    "+const x = '@';",
    "   12\u{2192}  x: @",
];

/// Lines with a value that a name, a command or a form gives away; `@` is the value.
pub(crate) const PLACES: &[(&str, &str)] = &[
    ("environment", "API_TOKEN_7=@"),
    ("environment, exported", "export DB_PASSWORD=@\nmake"),
    ("environment, quoted", "SECRET_KEY=\"@\""),
    ("environment of Docker", "docker run -e API_KEY=@ web"),
    ("environment of PowerShell", "$env:API_TOKEN = \"@\""),
    ("YAML", "db:\n  password: @\n  port: 5432"),
    ("YAML over two lines", "password:\n  @\n"),
    ("YAML, folded", "api_key: >-\n    @\n"),
    ("JSON", "{\"apiKey\": \"@\", \"n\": 1}"),
    ("JSON, escaped", "{\\\"password\\\":\\\"@\\\"}"),
    ("JSON, escaped twice", "{\\\\\\\"password\\\\\\\":\\\\\\\"@\\\\\\\"}"),
    ("JSON in an address", "?q=%7B%22password%22%3A%22@%22%7D"),
    ("JSON with codes", "{\\u0022password\\u0022:\\u0022@\\u0022}"),
    ("a form", "user=me&password=@&x=1"),
    ("a form, encoded", "body=user%3Dme%26password%3D@%26x%3D1"),
    ("key of an address", "https://example.org/maps?key=@&v=3"),
    ("token of an address", "https://example.org/?a=1&access_token=@"),
    ("XML", "<password>@</password>"),
    ("XML with names", "<add key=\"ApiKey\" value=\"@\" />"),
    ("Kubernetes", "- name: DB_PASSWORD\n  value: @\n"),
    ("JSON pair", "{\"name\": \"DB_PASSWORD\", \"value\": \"@\"}"),
    ("argument of a call", "connect(host, password=\"@\")"),
    ("second argument", "client.set(\"api_key\", \"@\")"),
    ("login of Python", "requests.get(url, auth=('me','@'))"),
    ("row of a table", "| API key | @ |"),
    ("column of a table", "| who | password |\n|---|---|\n| me | `@` |\n"),
    ("said of a key", "the API key is @ and it works"),
    ("said of a key, colon", "API key: @"),
    ("said in bold", "**Access token:** `@`"),
    ("said of a password", "my password is @, keep it"),
    ("header", "X-Api-Key: @"),
    ("header of GitLab", "-H 'PRIVATE-TOKEN: @'"),
    ("bearer", "Authorization: Bearer @"),
    ("bearer in JSON", "{\\\"Authorization\\\":\\\"Bearer @\\\"}"),
    ("authorization by token", "Authorization: token @"),
    ("cookie", "Cookie: theme=dark; session=@; lang=en"),
    ("cookie that is set", "Set-Cookie: sid=@; Path=/; HttpOnly"),
    ("curl", "curl -u me:@ https://example.org"),
    ("curl, long", "curl --user \"me:@\" https://example.org"),
    ("netrc", "machine example.org login me password @"),
    ("netrc over lines", "machine example.org\n  login me\n  password @\n"),
    ("option", "tool --password @ --verbose"),
    ("option with equals", "tool --token=@ run"),
    ("option in a list", "[\"--password\", \"@\"]"),
    ("mysql", "mysql -u root -p@ shop"),
    ("sshpass", "sshpass -p @ ssh me@example.org"),
    ("redis-cli", "redis-cli -h cache -a @ ping"),
    ("docker login", "docker login -u me -p @ registry.example.org"),
    ("connection string", "Server=db;User Id=me;Password=@;Encrypt=true"),
    ("address of a database", "postgres://app:@@db.internal:5432/app"),
    ("address of Redis", "redis://:@@cache:6379/0"),
    ("properties", "spring.datasource.password=@"),
    ("TOML", "[db]\npassword = \"@\""),
    ("INI", "client_secret = @"),
    ("Rust", "const API_TOKEN: &str = \"@\";"),
    ("TypeScript", "const password: string = '@';"),
    ("Go", "apiKey := \"@\""),
    ("PHP", "'password' => '@',"),
    ("Ruby", "config.secret_key = '@'"),
    ("npmrc", "//registry.example.org/:_authToken=@"),
    ("SQL", "ALTER USER app WITH PASSWORD '@';"),
    ("SQL of MySQL", "CREATE USER app IDENTIFIED BY '@';"),
    ("log", "level=info token=@ user=me"),
    ("a line of a file, numbered", "    14\u{2192}SECRET_TOKEN=@"),
    ("a line of a change", "+  client_secret: \"@\","),
];

/// Whether a value of an alphabet can stand in a place: addresses and headers have signs encoded.
pub(crate) fn fits(place: &str, alphabet: &str) -> bool {
    let is_address = ["address", "a form", "bearer", "authorization", "cookie"]
        .iter()
        .any(|word| place.contains(word));
    let is_login = ["address of a database", "address of Redis"].contains(&place);
    !(is_address && alphabet == "signs" || is_login && alphabet == "base64")
}

/// Kinds whose value has a form of its own, each as a line with what must not be seen of it.
pub(crate) fn special(kind: &str, dice: &mut Dice) -> (String, Vec<String>) {
    let one = |line: &str, secret: String| (line.replace('@', &secret), vec![secret]);
    match kind {
        "AWS secret" => one("aws_secret_access_key = @", dice.base64(40)),
        "AWS session token" => {
            one("AWS_SESSION_TOKEN=@", format!("FwoGZXIvYXdz{}", dice.base64(180)))
        }
        "Azure account key" => one(
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=@;",
            format!("{}==", dice.base64(86)),
        ),
        "Azure SAS" => one(
            "https://a.blob.core.windows.net/c?sv=2024-01-01&sp=r&sig=@",
            format!("{}%3D", dice.base64(42).replace(['+', '/'], "%2B")),
        ),
        "Twilio auth token" => one("TWILIO_AUTH_TOKEN=@", dice.hex(32)),
        "Docker auth" => {
            one("{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"@\"}}}", login(dice))
        }
        "basic authorization" => one("Authorization: Basic @", login(dice)),
        "token wrapped over two lines" => {
            let (head, tail) = (dice.alnum(20), dice.alnum(16));
            (format!("use gh{}{head}\n{tail}\nfor it", "p_"), vec![head, tail])
        }
        "value that begins with $" => one("DB_PASSWORD=@", format!("${}", dice.value("signs", 12))),
        "short password in prose" => {
            let secret = format!(
                "{}{}{}",
                dice.pick(&["tiger", "Hunter", "Sommer", "dragon"]),
                10 + dice.below(90),
                dice.pick(&["!", "", "#"])
            );
            one("the password is @ on that box", secret)
        }
        "password of letters, quoted" => one("{\"password\": \"@\"}", dice.value("letters", 10)),
        "words as a password" => one(
            "DB_PASSWORD=@",
            format!(
                "{}{}{}",
                dice.pick(&["copper", "winter", "harbour"]),
                dice.pick(&["lattice", "engine"]),
                dice.pick(WORDS)
            ),
        ),
        "GCP service account" => one(
            "{\"private_key_id\": \"1\", \"private_key\": \"-----BEGIN PRIVATE KEY-----\\n@\\n-----END PRIVATE KEY-----\\n\"}",
            dice.base64(64),
        ),
        "Kubernetes secret" => one("kind: Secret\ndata:\n  password: @\n", dice.base64(24)),
        "kubeconfig key" => {
            one("    client-key-data: LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tL@", dice.base64(400))
        }
        other => unreachable!("{other} is no kind"),
    }
}

/// The kinds with a form of their own.
pub(crate) const SPECIAL: &[&str] = &[
    "AWS secret",
    "AWS session token",
    "Azure account key",
    "Azure SAS",
    "Twilio auth token",
    "Docker auth",
    "basic authorization",
    "token wrapped over two lines",
    "value that begins with $",
    "short password in prose",
    "password of letters, quoted",
    "words as a password",
    "GCP service account",
    "Kubernetes secret",
    "kubeconfig key",
];

fn login(dice: &mut Dice) -> String {
    const SIGNS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let plain = format!("me:{}", dice.alnum(15));
    plain
        .as_bytes()
        .chunks(3)
        .flat_map(|three| {
            let number = three.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
            [18, 12, 6, 0].map(|shift| char::from(SIGNS[number >> shift & 63]))
        })
        .collect()
}

/// The kinds of private keys.
pub(crate) const KEYS: &[&str] = &["RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED ", "DSA "];

/// How a private key may be written down.
pub(crate) const KEY_SHAPES: &[&str] = &[
    "plain",
    "indented",
    "numbered",
    "numbered by cat",
    "escaped",
    "quoted",
    "without its head",
    "without its tail",
    "on one line",
    "changed",
];

/// A private key as text, and its lines.
pub(crate) fn private_key(kind: &str, shape: &str, dice: &mut Dice) -> (String, Vec<String>) {
    let mut body: Vec<String> = (0..6).map(|_| dice.base64(64)).collect();
    body.push(format!("{}=", dice.base64(31)));
    let (begin, end) = (
        format!("-----BEGIN {kind}PRIVATE {}-----", "KEY"),
        format!("-----END {kind}PRIVATE {}-----", "KEY"),
    );
    let mut lines = vec![begin];
    lines.extend(body.iter().cloned());
    lines.push(end);
    let numbered = |mark: &str| {
        let lines = lines.iter().enumerate();
        lines.map(|(at, line)| format!("{:6}{mark}{line}", at + 1)).collect::<Vec<_>>().join("\n")
    };
    let with = |mark: &str| {
        lines.iter().map(|line| format!("{mark}{line}")).collect::<Vec<_>>().join("\n")
    };
    let text = match shape {
        "indented" => with("    "),
        "numbered" => numbered("\u{2192}"),
        "numbered by cat" => numbered("\t"),
        "escaped" => format!("\"key\": \"{}\\n\"", lines.join("\\n")),
        "quoted" => with("> "),
        "without its head" => lines[1..].join("\n"),
        "without its tail" => lines[..lines.len() - 1].join("\n"),
        "on one line" => lines.join(" "),
        "changed" => with("+"),
        _ => lines.join("\n"),
    };
    (format!("this is it:\n{text}\nand more words"), body)
}

/// Innocent lines, as ordinary sessions are full of.
pub(crate) fn innocent(dice: &mut Dice) -> String {
    let name = dice.pick(&[
        "token",
        "password",
        "apiKey",
        "api_key",
        "secret",
        "accessToken",
        "client_secret",
        "privateKey",
        "API_KEY",
        "SECRET",
        "authToken",
        "credentials",
        "key",
    ]);
    match dice.below(24) {
        0 => format!("{name}: {};", dice.camel(2)),
        1 => format!("let {name} = {}({name});", dice.camel(2)),
        2 => format!("{name}: {}<{}>,", dice.camel(1), dice.camel(2)),
        3 => format!("this.{name} = this.{}.{};", dice.pick(WORDS), dice.pick(WORDS)),
        4 => format!("{name} = {}_{}_{}", dice.pick(WORDS), dice.pick(WORDS), dice.pick(WORDS)),
        5 => format!("{name}: \"{}-{}\"", dice.pick(WORDS), dice.pick(WORDS)),
        6 => format!("{name}: Uint{}Array", 8 << dice.below(3)),
        7 => format!(
            "{name} = src/{}/{}_{}.rs",
            dice.pick(WORDS),
            dice.pick(WORDS),
            dice.pick(WORDS)
        ),
        8 => format!("commit {}", dice.hex(40)),
        9 => format!("sha256:{}", dice.hex(64)),
        10 => format!("\"integrity\": \"sha512-{}==\",", dice.base64(86)),
        11 => format!("session {} started", dice.uuid()),
        12 => format!("checksum = \"{}\"", dice.hex(64)),
        13 => format!("data:image/png;base64,iVBORw0KGgo{}", dice.base64(200)),
        14 => format!("{name}=${{{}}}", dice.pick(&["TOKEN", "DB_PASSWORD", "1"])),
        15 => format!("{name} = process.env.{}", dice.pick(&["API_KEY", "TOKEN_2", "DB_PASS"])),
        16 => format!("{name}=<your-{}>", dice.pick(WORDS)),
        17 => format!("{name}=xxxxxxxxxxxxxxxx{}", dice.pick(&["", "xxxx"])),
        18 => format!("{name}: $TOKEN_{}", dice.below(9)),
        19 => format!("max_{name}s: {}", dice.below(100_000)),
        20 => format!(
            "the {name} is {} by the {}",
            dice.pick(&["checked", "stored", "read", "rotated"]),
            dice.pick(WORDS)
        ),
        21 => format!("{name}: your_{}_here", dice.pick(WORDS)),
        22 => {
            format!("let {} = {}::{}(&{name});", dice.pick(WORDS), dice.camel(2), dice.pick(WORDS))
        }
        _ => format!(
            "https://example.org/{}/{}?page={}",
            dice.pick(WORDS),
            dice.hex(8),
            dice.below(90)
        ),
    }
}
