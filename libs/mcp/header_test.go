package mcp_test

import (
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// 2026-07-28, streamable-http, Value Encoding: the first five are its own
// examples.
func TestHeaderEncoding(t *testing.T) {
	t.Parallel()
	for text, header := range map[string]string{
		"us-west1":           "us-west1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",

		"":                    "",
		"42":                  "42",
		"-7":                  "-7",
		"true":                "true",
		"a b\tc":              "a b\tc",
		"nämé":                "=?base64?bsOkbcOp?=",
		"\t":                  "=?base64?CQ==?=",
		"a\r":                 "=?base64?YQ0=?=",
		"\x00":                "=?base64?AA==?=",
		"\x7f":                "=?base64?fw==?=",
		"=?base64?":           "=?base64?",
		"=?BASE64?x?=":        "=?BASE64?x?=",
		"=?base64?=":          "=?base64?PT9iYXNlNjQ/PQ==?=",
		"=?base64??=":         "=?base64?PT9iYXNlNjQ/Pz0=?=",
		"file:///a/config.md": "file:///a/config.md",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if got := mcp.EncodeHeader(text); got != header {
				t.Errorf("encoded %q, want %q", got, header)
			}
			got, err := mcp.DecodeHeader(header)
			if err != nil || got != text {
				t.Errorf("decoded %q, %v", got, err)
			}
		})
	}
}

func TestHeaderDecoding(t *testing.T) {
	t.Parallel()
	const refused = "refused"
	for header, want := range map[string]string{
		"  us-west1\t":             "us-west1",
		" =?base64?YQ==?= ":        "a",
		"=?base64??=":              "",
		"=?Base64?YQ==?=":          "=?Base64?YQ==?=",
		"=?base64?YQ==":            "=?base64?YQ==",
		"x=?base64?YQ==?=":         "x=?base64?YQ==?=",
		"=?base64?YQ?=":            refused, // padding is missing
		"=?base64?YQ=?=":           refused,
		"=?base64?Y?=":             refused,
		"=?base64?YR==?=":          refused, // extra bits before the padding
		"=?base64?YQ== ?=":         refused,
		"=?base64?Y Q==?=":         refused,
		"=?base64?YQ==YQ==?=":      refused,
		"=?base64?Y\nQ==?=":        refused,
		"=?base64?Y\r\nQ==?=":      refused,
		"=?base64?_-8=?=":          refused, // the URL alphabet
		"=?base64?/w==?=":          refused, // FF is no UTF-8
		"=?base64?7aCA?=":          refused, // a surrogate
		"=?base64?<script>?=":      refused,
		"nämé":                     refused,
		"a\x00b":                   refused,
		"a\rb":                     refused,
		"a\nMcp-Name: evil":        refused,
		"\x7f":                     refused,
		"\u00a0us-west1":           refused,
		"=?base64?YQ==?= =?utf-8?": "=?base64?YQ==?= =?utf-8?",
	} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			got, err := mcp.DecodeHeader(header)
			if want == refused {
				if err == nil {
					t.Errorf("accepted as %q", got)
				}
				return
			}
			if err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}
