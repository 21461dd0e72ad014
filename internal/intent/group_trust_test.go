package intent_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
)

// A trusted group is made of what machines cannot say; what else is refused with what to
// write instead.
func TestTrustedGroupsAreMadeOfTrust(t *testing.T) {
	w := newWorld(t)
	group := func(name string, spec model.GroupSpec) model.Resource {
		return model.Resource{Kind: "Group", Metadata: model.Metadata{Name: name}, Spec: &spec}
	}
	node := model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "db01"}, Spec: &model.NodeSpec{}}
	apply := func(rs ...model.Resource) error {
		for i := range rs {
			if err := kind.All().Check(&rs[i]).Err(); err != nil {
				return err
			}
		}
		_, err := w.Apply(t.Context(), ada, rs, intent.ApplyOptions{})
		return err
	}
	if err := apply(node, group("open", model.GroupSpec{SelfJoin: true}), group("inner", model.GroupSpec{Trusted: true, Nodes: []string{"db01"}}),
		group("outer", model.GroupSpec{Trusted: true, Groups: []string{"inner"}, Where: `node.labels.role == "db" && node.namespace == "default"`})); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rs   []model.Resource
		want []string // of message and hint
	}{
		"facts": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Where: `node.facts.role == "db"`})},
			[]string{"cannot read node.facts", "every machine says its own facts", "node.labels"}},
		"names":  {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Where: `node.name.startsWith("db")`})}, []string{"cannot read node.name", "chooses its name"}},
		"groups": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Where: `"web" in node.groups`})}, []string{"cannot read node.groups"}},
		"agents": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, SelfJoin: true})}, []string{"spec.selfJoin", "another group"}},
		"a group that is not": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Groups: []string{"inner", "open"}})},
			[]string{"group open, which is not trusted", "trusted: true in the same apply"}},
		"a group that is not there": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Groups: []string{"nobody"}})}, []string{"group nobody, which does not exist"}},
		"a node that is not there": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Nodes: []string{"db02"}})},
			[]string{`node "db02" does not exist`, "whoever joins first", "muster node token --groups g"}},
		"no more": {[]model.Resource{group("inner", model.GroupSpec{})}, []string{"group/inner must stay trusted", "group/outer", "muster edit group outer"}},
	} {
		err := apply(c.rs...)
		if model.ClassOf(err) != model.Invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\ndoes not say %q", name, err, want)
			}
		}
	}
	// The name of a listed node is nobody's to take, also while no node has it.
	join := func(name string) string {
		member, err := w.Register(t.Context(), uuid.NewString(), pki.JoinToken{}, pki.EnrolRequest{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return member.Name
	}
	if _, err := w.Delete(t.Context(), ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "db01"}}, intent.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := join("db01"); got != "db01-2" {
		t.Errorf("joined as %s", got)
	}
	w.open(t) // also after a restart
	if got := join("db01"); got != "db01-3" {
		t.Errorf("joined as %s", got)
	}
	if err := apply(group("inner", model.GroupSpec{Trusted: true})); err != nil {
		t.Fatal(err)
	}
	if got := join("db01"); got != "db01" {
		t.Errorf("joined as %s, and no group lists it any more", got)
	}
	// Both at once may stop being so, or begin to.
	if err := apply(group("outer", model.GroupSpec{Groups: []string{"inner"}}), group("inner", model.GroupSpec{})); err != nil {
		t.Error(err)
	}
	if err := apply(group("outer", model.GroupSpec{Trusted: true, Groups: []string{"inner"}}), group("inner", model.GroupSpec{Trusted: true})); err != nil {
		t.Error(err)
	}
}
