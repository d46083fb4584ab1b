# Goose; the npm package contains the program, which has a version of its own. OpenAI chat API.

C=$(find "$A/node_modules" -name goose -type f -size +5M | head -1)
setup() {
    export GOOSE_PROVIDER=openai GOOSE_MODEL=mock-1 OPENAI_API_KEY=k OPENAI_HOST=$MOCK \
        OPENAI_BASE_PATH=v1/chat/completions GOOSE_MODE=auto GOOSE_DISABLE_KEYRING=1 \
        GOOSE_TELEMETRY_ENABLED=false GOOSE_TELEMETRY_OFF=1
}
ask() { say "$1"; go "$C" run -n farm -t "$1"; }
more() { say "$1"; go "$C" run -r -n farm -t "$1"; }
