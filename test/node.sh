# Sourced: bring_node installs the packages of the working directory and sets
# node to a Node of 22 or newer. npm on the machine is only the bootstrap: the
# Node that runs things is a pinned package like the others.
bring_node() {
	if ! command -v npm >/dev/null; then
		command -v apt-get >/dev/null || { echo "npm is missing: install Node, then try again" >&2; return 1; }
		echo "== install npm"
		three_times install_npm || return 1
	fi
	# A package that did not come may be the packed Node: npm leaves out what is optional,
	# and says nothing of it.
	if ! [ node_modules/.package-lock.json -nt package-lock.json ] || ! new_node; then
		echo "== npm ci"
		three_times install_packages || return 1
	fi
}

# three_times runs a command until it succeeds, for a registry has its hiccups.
three_times() {
	local i
	for i in 1 2 3; do
		! "$@" || return 0
		echo "try $i of 3 failed: $*" >&2
		[ "$i" = 3 ] || sleep $((5 * i))
	done
	return 1
}

install_npm() {
	local as_root=
	[ "$(id -u)" = 0 ] || as_root=sudo
	$as_root apt-get update -q && $as_root apt-get install -qy --no-install-recommends npm
}

install_packages() {
	npm ci --no-audit --no-fund && touch node_modules/.package-lock.json && {
		new_node || { echo "Node 22 or newer is needed, and no packed one fits this machine; here is $("$node" --version)" >&2; return 1; }
	}
}

# new_node sets node, and reports whether it is new enough.
new_node() {
	node=node
	local packed version
	for packed in node_modules/node-linux-*/bin/node; do
		[ ! -x "$packed" ] || node=$PWD/$packed
	done
	version=$("$node" --version) || return 1
	version=${version#v}
	[ "${version%%.*}" -ge 22 ]
}
