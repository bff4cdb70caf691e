package mcp

import (
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"
)

// HTTP headers of the Streamable HTTP transport.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderSessionID       = "Mcp-Session-Id"
)

const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// DecodeHeader returns the value an Mcp-Name or Mcp-Param header stands for:
// the plain text, or the text inside the Base64 form. Errors mean the value
// must be refused (2026-07-28, streamable-http, Value Encoding).
func DecodeHeader(v string) (string, error) {
	v = strings.Trim(v, " \t")
	if len(v) >= len(sentinelPrefix)+len(sentinelSuffix) && strings.HasPrefix(v, sentinelPrefix) && strings.HasSuffix(v, sentinelSuffix) {
		text, err := base64.StdEncoding.Strict().DecodeString(v[len(sentinelPrefix) : len(v)-len(sentinelSuffix)])
		if err != nil || strings.ContainsAny(v, "\r\n") {
			return "", errors.New("malformed Base64")
		}
		if !utf8.Valid(text) {
			return "", errors.New("not UTF-8")
		}
		return string(text), nil
	}
	if !isPlain(v) {
		return "", errors.New("invalid characters")
	}
	return v, nil
}

// EncodeHeader returns the form in which a text travels in an Mcp-Name or
// Mcp-Param header. DecodeHeader reverses it.
func EncodeHeader(text string) string {
	looksEncoded := strings.HasPrefix(text, sentinelPrefix) && strings.HasSuffix(text, sentinelSuffix)
	if isPlain(text) && !looksEncoded && strings.Trim(text, " \t") == text {
		return text
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelSuffix
}

func isPlain(v string) bool {
	for i := range len(v) {
		if c := v[i]; c != '\t' && (c < 0x20 || c > 0x7e) {
			return false
		}
	}
	return true
}
