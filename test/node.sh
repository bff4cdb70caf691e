# Sourced: bring_node installs the packages of the working directory and sets
# node to a Node of 22 or newer. npm on the machine is only the bootstrap: the
# Node that runs things is a pinned package like the others.
bring_node() {
	if ! command -v npm >/dev/null; then
		local as_root=
		[ "$(id -u)" = 0 ] || as_root=sudo
		command -v apt-get >/dev/null || { echo "npm is missing: install Node, then try again" >&2; return 1; }
		echo "== install npm"
		$as_root apt-get update -q && $as_root apt-get install -qy --no-install-recommends npm
	fi
	if ! [ node_modules/.package-lock.json -nt package-lock.json ]; then
		echo "== npm ci"
		npm ci --no-audit --no-fund
		touch node_modules/.package-lock.json
	fi
	node=node
	local packed version
	for packed in node_modules/node-linux-*/bin/node; do
		[ ! -x "$packed" ] || node=$PWD/$packed
	done
	version=$("$node" --version)
	version=${version#v}
	if [ "${version%%.*}" -lt 22 ]; then
		echo "Node 22 or newer is needed, and no packed one fits this machine; here is $version" >&2
		return 1
	fi
}
