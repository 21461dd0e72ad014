package intent

import (
	"slices"
	"testing"
)

// FuzzDecodeChangeRequest decodes random bytes as a stored change request, and expects the right user. The user made the
// request directly or by a token.
func FuzzDecodeChangeRequest(f *testing.F) {
	f.Add([]byte(`{"User":"ann","Maker":"bob","At":"2026-12-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := decodeChangeRequest(Row{Body: data})
		if err == nil && (!q.isMadeBy(Actor{User: q.User}) || !q.isMadeBy(Actor{User: "robot", Maker: q.User}) && q.User != "") {
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
	if got := filterNodes(namespaces, []string{"bank/db1", "shop/web1", "shop1"}); !slices.Equal(got, []string{"shop/web1"}) {
		t.Errorf("nodes %q", got)
	}
}

// TestCommandOfARequestMakesItsChange expects, for each kind of change, a command that makes the same change.
func TestCommandOfARequestMakesItsChange(t *testing.T) {
	write := func(kind, namespace, name string) Write {
		return Write{Key: Key{Kind: kind, Namespace: namespace, Name: name}}
	}
	retired, renamed, created := write("Node", "shop", "web1"), write("Node", "shop", "web2"), write("Policy", "shop", "c")
	retired.Retire, renamed.From, renamed.Body, created.Body = true, "web1", []byte("{}"), []byte("{}")
	for want, writes := range map[string][]Write{
		"muster delete policy/a group/b -n shop":           {write("Policy", "shop", "a"), write("Group", "shop", "b")},
		"muster delete policy/a":                           {write("Policy", "default", "a")},
		"muster delete policy/a namespace/shop -n shop":    {write("Policy", "shop", "a"), write("Namespace", "", "shop")},
		"muster delete namespace/shop policy/a -n shop":    {write("Namespace", "", "shop"), write("Policy", "shop", "a")},
		"muster delete -f FILE (the files of the request)": {write("Policy", "default", "a"), write("Policy", "shop", "a")},
		"muster node retire web1 -n shop":                  {retired},
		"muster node rename web1 web2 -n shop":             {renamed},
		"muster apply -f FILE (the files of the request)":  {created, write("Policy", "shop", "a")},
	} {
		if got := changeCommand(writes); got != want {
			t.Errorf("command %q, want %q", got, want)
		}
	}
}
