package logs

import "testing"

// FuzzFollowed gives arbitrary bytes to the readers at both ends.
func FuzzFollowed(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"level":"info","name":"t","call":"A","tenant":"x"}`, `{"end":true}`, `{"level":"loud"}`,
		`{"here":{"service":"svc","instance":"i","number":3}}`, `{"here":{"service":"a.b","instance":"i"}}`, `{"record":{"number":0}}`,
		`{"record":{"time":"2026-01-01T00:00:00Z","service":"svc","instance":"i","number":1,"level":"info","data":{"a":1}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, ok := readRequest(data); ok && r.Check() != nil {
			t.Errorf("a filter that is wrong is taken: %v", r)
		}
		if s, ok := readSaid(data); ok && (s.Here == nil || s.Here.Service == "" || s.Here.Instance == "" || s.Record != nil && s.Here.Number+1 != s.Record.Number) {
			t.Errorf("believes %+v", s)
		}
	})
}
