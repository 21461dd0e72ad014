package intent

import (
	"slices"
	"testing"
)

// FuzzDecodeReview decodes random bytes as a stored change request, and expects the right user. The user made the
// request directly or by a token.
func FuzzDecodeReview(f *testing.F) {
	f.Add([]byte(`{"User":"ann","Maker":"bob","At":"2026-12-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := decodeReview(Row{Body: data})
		if err == nil && (!q.isOf(Actor{User: q.User}) || !q.isOf(Actor{User: "robot", Maker: q.User}) && q.User != "") {
			t.Errorf("%+v is not of its user", q)
		}
	})
}

// TestNodesOfOtherNamespacesAreNotNamed filters a list of nodes by namespaces, and expects no node of another
// namespace.
func TestNodesOfOtherNamespacesAreNotNamed(t *testing.T) {
	writes := []Write{{Key: Key{Kind: "Policy", Namespace: "shop", Name: "a"}}, {Key: Key{Kind: RolloutKind, Name: "7"}}, {Key: Key{Kind: "Namespace", Name: "shop"}}}
	namespaces := namespacesOf(writes)
	if !slices.Equal(namespaces, []string{"shop"}) {
		t.Errorf("namespaces %q", namespaces)
	}
	if got := nodesIn(namespaces, []string{"bank/db1", "shop/web1", "shop1"}); !slices.Equal(got, []string{"shop/web1"}) {
		t.Errorf("nodes %q", got)
	}
}
