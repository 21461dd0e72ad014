package intent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestReferencesAreReadInOneQuery applies many resources, and expects few database queries. The number of queries
// depends only on the longest chain of references.
func TestReferencesAreReadInOneQuery(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	handler := func(i int) model.Resource {
		return model.Resource{Kind: "Handler", Metadata: model.Metadata{Name: fmt.Sprintf("handler-%d", i)}, Spec: &model.HandlerSpec{Command: &model.Command{Shell: "true"}}}
	}
	const most = 500
	var targets, edges []model.Resource
	for i := range most {
		targets = append(targets, handler(i), group(fmt.Sprintf("group-%d", i)))
	}
	for i := range most {
		c := check(fmt.Sprintf("check-%d", i), fmt.Sprintf("handler-%d", i))
		spec := c.Spec.(*model.CheckSpec)
		spec.Targets, spec.TTL = &model.Targets{Groups: []string{fmt.Sprintf("group-%d", i)}, Nodes: []string{fmt.Sprintf("node-%d", i)}}, model.Duration(time.Hour)
		if i%2 == 1 {
			spec.DependsOn = []string{fmt.Sprintf("check-%d", i-1)}
		}
		edges = append(edges, c)
	}
	apply := func(resources []model.Resource) int64 {
		t.Helper()
		before := w.queries.Load()
		testenv.Value(w.Apply(ctx, ada, resources, intent.ApplyOptions{Yes: true}))(t)
		return w.queries.Load() - before
	}
	apply(targets)
	few := apply(edges[:4])
	created, unchanged := apply(edges), apply(edges)
	if created != few || unchanged != few || few > 3 {
		t.Errorf("queries: %d for 4 checks, %d for %d new ones, %d for as many unchanged; want at most 3 and no difference", few, created, most, unchanged)
	}
}

// TestHandlerNeedsServerSecret applies handlers with a secret, and expects a refusal unless the server has the
// secret's value. The secret cannot be deleted while a handler names it.
func TestHandlerNeedsServerSecret(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	pager := func(secret string) model.Resource {
		r := handler("pager")
		r.Spec = &model.HandlerSpec{Slack: &model.Slack{URL: model.Secret{SecretName: secret}}}
		return r
	}
	secret := func(spec model.SecretSpec) model.Resource {
		return model.Resource{Kind: "Secret", Metadata: model.Metadata{Name: "s"}, Spec: &spec}
	}
	served, local := secret(model.SecretSpec{File: "/etc/muster/s"}), secret(model.SecretSpec{AgentFile: "s"})
	for _, c := range []struct {
		apply []model.Resource
		want  string // part of the refusal; empty: the apply succeeds
	}{
		{[]model.Resource{pager("s")}, `handler/pager: spec.slack.url.secret: secret "s" does not exist`},
		{[]model.Resource{pager("s"), local}, "the value of secret s is in the agent's file s, but handlers run on the server"},
		{[]model.Resource{pager("s"), served}, ""},
		{[]model.Resource{local}, "handler/pager: slack.url.secret: the value of secret s is in the agent's file s"},
		{[]model.Resource{secret(model.SecretSpec{Env: "S"})}, ""},
	} {
		_, err := w.Apply(ctx, ada, c.apply, intent.ApplyOptions{})
		if c.want == "" && err != nil || c.want != "" && (model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	gone := []intent.Key{{Kind: "Secret", Namespace: "default", Name: "s"}}
	if _, err := w.Delete(ctx, ada, gone, intent.ApplyOptions{}); model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), "handler/pager still refers to secret/s in the field spec.slack.url.secret") {
		t.Errorf("got %v", err)
	}
	if _, err := w.Delete(ctx, ada, append(gone, intent.Key{Kind: "Handler", Namespace: "default", Name: "pager"}), intent.ApplyOptions{}); err != nil {
		t.Error(err)
	}
}

// TestMutatorNeedsServerSecret applies mutators without a usable secret, and expects a refusal. The secret is missing,
// or the server does not have its value.
func TestMutatorNeedsServerSecret(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	mutator := model.Resource{Kind: "Mutator", Metadata: model.Metadata{Name: "m"},
		Spec: &model.MutatorSpec{Command: &model.Command{Shell: "true"}, Secrets: []model.CommandSecret{{Env: "KEY", Secret: "s"}}}}
	secret := func(spec model.SecretSpec) model.Resource {
		return model.Resource{Kind: "Secret", Metadata: model.Metadata{Name: "s"}, Spec: &spec}
	}
	for _, c := range []struct {
		apply []model.Resource
		want  string // part of the refusal; empty: the apply succeeds
	}{
		{[]model.Resource{mutator}, `mutator/m: spec.secrets[0].secret: secret "s" does not exist`},
		{[]model.Resource{mutator, secret(model.SecretSpec{AgentFile: "s"})}, "the value of secret s is in the agent's file s, but mutators run on the server"},
		{[]model.Resource{mutator, secret(model.SecretSpec{Env: "S"})}, ""},
		{[]model.Resource{secret(model.SecretSpec{AgentEnv: "S"})}, "mutator/m: secrets[0].secret: the value of secret s is in the agent's environment"},
	} {
		_, err := w.Apply(ctx, ada, c.apply, intent.ApplyOptions{})
		if c.want == "" && err != nil || c.want != "" && (model.ClassOf(err) != model.Invalid || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// The upstream of a node and the dependencies of a check must exist. They cannot be deleted while they are referenced,
// follow a rename, and cannot form a cycle.
func TestUpstreamAndDependencyReferences(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	node := func(name string, behind *model.Upstream) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: name}, Spec: &model.NodeSpec{Upstream: behind}}
	}
	depends := func(name string, on ...string) model.Resource {
		r := check(name)
		r.Spec.(*model.CheckSpec).DependsOn = on
		return r
	}
	apply := func(list ...model.Resource) error {
		_, err := w.Apply(ctx, ada, list, intent.ApplyOptions{})
		return err
	}
	for _, c := range []struct {
		list []model.Resource
		want string // part of the refusal; empty: the apply succeeds
	}{
		{[]model.Resource{node("web01", &model.Upstream{Node: "sw7"})}, `node/web01: spec.dependsOn.node: node "sw7" does not exist`},
		{[]model.Resource{node("web01", &model.Upstream{Node: "web01"})}, "node/web01 depends on itself: web01 → web01"},
		{[]model.Resource{node("core", nil), node("web01", &model.Upstream{Node: "core", Check: "ping"})}, `dependsOn.check: check "ping" does not exist`},
		{[]model.Resource{depends("http", "db")}, `check/http: spec.dependsOn[0]: check "db" does not exist`},
		{[]model.Resource{depends("db", "keepalive"), depends("http", "db"), check("ping")}, ""},
		{[]model.Resource{node("core", nil), node("sw7", &model.Upstream{Node: "core", Check: "ping"}), node("web01", &model.Upstream{Node: "sw7"})}, ""},
		{[]model.Resource{node("core", &model.Upstream{Node: "web01"})}, "node/core depends on itself: core → web01 → sw7 → core"},
		{[]model.Resource{depends("db", "http")}, "check/db depends on itself: db → http → db"},
	} {
		if err := apply(c.list...); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	deletes := func(kind string, names ...string) error {
		var keys []intent.Key
		for _, name := range names {
			keys = append(keys, intent.Key{Kind: kind, Namespace: "default", Name: name})
		}
		_, err := w.Delete(ctx, ada, keys, intent.ApplyOptions{})
		return err
	}
	for want, err := range map[string]error{
		"node/web01 still refers to node/sw7 in the field spec.dependsOn.node":  deletes("Node", "sw7"),
		"node/sw7 still refers to check/ping in the field spec.dependsOn.check": deletes("Check", "ping"),
		"check/http still refers to check/db in the field spec.dependsOn[0]":    deletes("Check", "db"),
	} {
		if model.ClassOf(err) != model.Conflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	testenv.Value(w.Rename(ctx, ada, "default", "sw7", "switch7", intent.ApplyOptions{}))(t)
	r, err := w.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: "web01"})
	if err != nil || r.Spec.(*model.NodeSpec).Upstream.Node != "switch7" {
		t.Errorf("after its name changed: %+v, %v", r, err)
	}
	shared := node("sw1", nil)
	shared.Metadata.Namespace = "shared"
	testenv.NoError(t, apply(shared, node("sw1", nil), node("web02", &model.Upstream{Node: "shared/sw1"}), node("web03", &model.Upstream{Node: "sw1"})))
	testenv.Value(w.Rename(ctx, ada, "default", "sw1", "sw2", intent.ApplyOptions{}))(t)
	for name, want := range map[string]string{"web02": "shared/sw1", "web03": "sw2"} {
		r := testenv.Value(w.Get(ctx, intent.Key{Kind: "Node", Namespace: "default", Name: name}))(t)
		if got := r.Spec.(*model.NodeSpec).Upstream.Node; got != want {
			t.Errorf("%s depends on %s after a rename in default, want %s", name, got, want)
		}
	}
	if err := deletes("Node", "web01", "switch7"); err != nil {
		t.Error(err)
	}
}

// TestTrustedGroupContainsTrustedGroupsOnly applies trusted groups that machines could join, and expects a refusal. An
// example is a trusted group with an untrusted inner group. Each refusal has a hint with the correct form.
func TestTrustedGroupContainsTrustedGroupsOnly(t *testing.T) {
	w := newTestService(t)
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
		want []string // parts of message and hint
	}{
		"facts": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Where: `node.facts.role == "db"`})},
			[]string{"cannot read node.facts", "every machine reports its own facts", "node.labels"}},
		"names":  {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Where: `node.name.startsWith("db")`})}, []string{"cannot read node.name", "chooses its name"}},
		"groups": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Where: `"web" in node.groups`})}, []string{"cannot read node.groups"}},
		"agents": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, SelfJoin: true})}, []string{"spec.selfJoin", "another group"}},
		"a group that is not": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Groups: []string{"inner", "open"}})},
			[]string{"group open, which is not trusted", "set trusted: true in group open in the same apply"}},
		"a group that is not there": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Groups: []string{"nobody"}})}, []string{"group nobody, which does not exist"}},
		"a node that is not there": {[]model.Resource{group("g", model.GroupSpec{Trusted: true, Nodes: []string{"db02"}})},
			[]string{`node "db02" does not exist`, "the first machine with that name", "muster node token --groups g"}},
		"no more": {[]model.Resource{group("inner", model.GroupSpec{})}, []string{"group/inner must stay a trusted group", "group/outer", "muster edit group outer"}},
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
	// No machine can take the name of a listed node, also while no node has the name.
	join := func(name string) string {
		member, err := w.Register(t.Context(), uuid.NewString(), pki.JoinToken{}, pki.EnrolRequest{Name: name})
		testenv.NoError(t, err)
		return member.Name
	}
	testenv.Value(w.Delete(t.Context(), ada, []intent.Key{{Kind: "Node", Namespace: "default", Name: "db01"}}, intent.ApplyOptions{}))(t)
	if got := join("db01"); got != "db01-2" {
		t.Errorf("joined as %s", got)
	}
	w.open(t) // also after a restart
	if got := join("db01"); got != "db01-3" {
		t.Errorf("joined as %s", got)
	}
	testenv.NoError(t, apply(group("inner", model.GroupSpec{Trusted: true})))
	if got := join("db01"); got != "db01" {
		t.Errorf("joined as %s, and no group lists it any more", got)
	}
	// One apply may change the trust of both groups.
	if err := apply(group("outer", model.GroupSpec{Groups: []string{"inner"}}), group("inner", model.GroupSpec{})); err != nil {
		t.Error(err)
	}
	if err := apply(group("outer", model.GroupSpec{Trusted: true, Groups: []string{"inner"}}), group("inner", model.GroupSpec{Trusted: true})); err != nil {
		t.Error(err)
	}
}

// TestLifecycleHandlersTakeMessages names lifecycle handlers that accept only problems, and expects a refusal. A
// lifecycle handler announces removed nodes. PagerDuty, for example, accepts only problems.
func TestLifecycleHandlersTakeMessages(t *testing.T) {
	w, ctx := newTestService(t), t.Context()
	handler := func(name string, spec model.HandlerSpec) model.Resource {
		return model.Resource{Kind: "Handler", Metadata: model.Metadata{Name: name}, Spec: &spec}
	}
	node := func(tell string) model.Resource {
		return model.Resource{Kind: "Node", Metadata: model.Metadata{Name: "web01"}, Spec: &model.NodeSpec{Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{tell}}}}
	}
	apply := func(list ...model.Resource) error {
		_, err := w.Apply(ctx, ada, list, intent.ApplyOptions{})
		return err
	}
	refused := func(err error, service string) {
		t.Helper()
		var e *model.Error
		if !errors.As(err, &e) || e.Class != model.Invalid || !strings.Contains(err.Error(), service+", which accepts only problems") || !strings.Contains(e.Hint, "name a handler with command, webhook") {
			t.Errorf("%s: %v", service, err)
		}
	}
	pager := handler("pager", model.HandlerSpec{PagerDuty: &model.PagerDuty{RoutingKey: model.Secret{Text: "key"}}})
	refused(apply(pager, node("pager")), "PagerDuty")
	if err := apply(pager, handler("genie", model.HandlerSpec{Opsgenie: &model.Opsgenie{APIKey: model.Secret{Text: "key"}}}),
		handler("prom", model.HandlerSpec{Alertmanager: &model.Alertmanager{URLs: []string{"http://127.0.0.1:9093"}}}), handler("cmdb", model.HandlerSpec{Command: &model.Command{Shell: "cat"}})); err != nil {
		t.Fatal(err)
	}
	for name, service := range map[string]string{"pager": "PagerDuty", "genie": "Opsgenie", "prom": "Alertmanager"} {
		refused(apply(node(name)), service)
		refused(w.CheckJoinGrant(ctx, pki.JoinToken{Namespace: "default", Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{name}}}), service)
	}
	if err := apply(node("cmdb")); err != nil {
		t.Error(err)
	}
	if err := w.CheckJoinGrant(ctx, pki.JoinToken{Namespace: "default", Lifecycle: &model.Lifecycle{Ephemeral: true, Handlers: []string{"cmdb"}}}); err != nil {
		t.Error(err)
	}
}
