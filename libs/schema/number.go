package schema

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// hugeNumber finds a number beyond maxNumber and returns the JSON Pointer to
// it.
func hugeNumber(v any) (path string, found bool) {
	switch v := v.(type) {
	case json.Number:
		return "", !bounded(string(v))
	case map[string]any:
		for name, child := range v {
			if path, found := hugeNumber(child); found {
				return pointer(name) + path, true
			}
		}
	case []any:
		for i, child := range v {
			if path, found := hugeNumber(child); found {
				return pointer(strconv.Itoa(i)) + path, true
			}
		}
	}
	return "", false
}

func bounded(number string) bool {
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	return len(number) <= maxNumber && len(strings.TrimLeft(exponent, "+-")) <= 3
}

// pointer is one step of a JSON Pointer (RFC 6901).
func pointer(token string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}

// sameNumber compares two JSON numbers by value.
func sameNumber(a, b string) bool {
	if !bounded(a) || !bounded(b) {
		return false
	}
	x, ok1 := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok1 && ok2 && x.Cmp(y) == 0
}
