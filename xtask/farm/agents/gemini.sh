# Gemini CLI. Gemini generateContent API.

C="node $A/node_modules/@google/gemini-cli/bundle/gemini.js"
setup() {
    export GEMINI_API_KEY=k GOOGLE_GEMINI_BASE_URL=$MOCK GEMINI_CLI_TRUST_WORKSPACE=true \
        GEMINI_TELEMETRY_ENABLED=false
    mkdir -p "$HOME/.gemini"
    cat > "$HOME/.gemini/settings.json" <<'T'
{"security":{"auth":{"selectedType":"gemini-api-key"},"folderTrust":{"enabled":false}},
 "privacy":{"usageStatisticsEnabled":false},"general":{"disableAutoUpdate":true}}
T
}
ask() { say "$1"; go $C -m gemini-2.5-pro --yolo "${@:2}" -p "$1"; }
more() { ask "$1" --resume latest; }
compact() { terminal "$C -m gemini-2.5-pro --yolo --resume latest" settle:90 command:/compress settle:30 command:/quit wait:3; }
