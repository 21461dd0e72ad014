package intent

import "testing"

// FuzzDecodeReview decodes random bytes as a stored request, and expects the request to be of its user, by name and by a token.
func FuzzDecodeReview(f *testing.F) {
	f.Add([]byte(`{"User":"ann","Maker":"bob","At":"2026-12-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := decodeReview(Row{Body: data})
		if err == nil && (!q.isOf(Actor{User: q.User}) || !q.isOf(Actor{User: "robot", Maker: q.User}) && q.User != "") {
			t.Errorf("%+v is not of its user", q)
		}
	})
}
