// Package mcp holds the facts of the Model Context Protocol: its versions,
// methods, error codes and types, and the strict reader of its JSON-RPC
// messages. It does no I/O and knows nothing of Busbar.
package mcp

import "slices"

// Protocol versions, newest last.
const (
	V20241105 = "2024-11-05"
	V20250326 = "2025-03-26"
	V20250618 = "2025-06-18"
	V20251125 = "2025-11-25"
	V20260728 = "2026-07-28"
)

// Modern is the version of the stateless era that Busbar speaks.
const Modern = V20260728

// LegacyLatest is what a legacy client gets that asks for a version unknown
// here.
const LegacyLatest = V20251125

// supported is in order of preference, as UnsupportedProtocolVersionError and
// server/discover list it.
var supported = []string{V20260728, V20251125, V20250618, V20250326, V20241105}

// Supported returns every version spoken, preferred first.
func Supported() []string { return slices.Clone(supported) }

// IsSupported reports whether v is spoken, in either era.
func IsSupported(v string) bool { return slices.Contains(supported, v) }

// IsLegacy reports whether v belongs to the era of handshakes and sessions.
func IsLegacy(v string) bool { return v != Modern && slices.Contains(supported, v) }
