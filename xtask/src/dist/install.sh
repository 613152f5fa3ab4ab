# Runs as root in a clean Debian: installs the package, starts the flow with the model in /model, and embeds a text.
set -eu
now() { date +%s%N; }
started=$(now)
dpkg -i /flow.deb >/dev/null
installed=$(now)
# The installed flow file, but with the model in /model, so that nothing is downloaded.
sed '/^ *device:/a\      model: /model' /etc/flow/encode.yml >/encode.yml
mkfifo /ready
timeout 300 flow up /encode.yml --port 0 --ready-format json >/ready 2>/up.log &
flow=$!
read -r ready </ready || { cat /up.log >&2; exit 1; }
address=$(printf '%s' "$ready" | sed -n 's/.*"address":"\([^"]*\)".*/\1/p')
timeout 60 flow post "grpc://$address" --on /encode --text "hello world"
served=$(now)
kill "$flow"
wait "$flow"
echo "milliseconds to install: $(((installed - started) / 1000000))"
echo "milliseconds to the first vector: $(((served - started) / 1000000))"
flow --version
