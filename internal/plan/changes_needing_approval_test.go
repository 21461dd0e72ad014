package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// TestReviewCoversPoliciesOfItsNodes previews changes for groups that need approval, and expects requests for approval
// only where needed. It expects that a change needs approval if it alters the policies of a member at once, or ends
// its membership or the review, and not if a roll-out delays the change or other nodes alone get it.
func TestReviewCoversPoliciesOfItsNodes(t *testing.T) {
	h := newTestPlanner(t)
	h.node("p1", nil)
	h.node("l1", nil)
	on := func(directive string, nodes ...string) *model.PolicySpec {
		return &model.PolicySpec{Directives: []string{directive}, Targets: &model.Targets{Nodes: nodes}}
	}
	h.apply("Namespace", "", "default", nil, &model.NamespaceSpec{})
	h.apply("Group", "default", "production", nil, &model.GroupSpec{Nodes: []string{"p1"}, Review: true})
	technique := motdTechnique("message")
	technique.MultiInstance = true
	technique.Methods[0].FileContent.Content = "{{ .params.text }} {{ .props.site }}\n"
	h.apply("Technique", "default", "motd", nil, technique)
	h.apply("Directive", "default", "everywhere", nil, motdDirective("a"))
	h.apply("Directive", "default", "laboratory", nil, motdDirective("a"))
	h.apply("Policy", "default", "everywhere", nil, on("everywhere", "p1", "l1"))
	h.apply("Policy", "default", "laboratory", nil, on("laboratory", "l1"))
	write := func(kind, name string, spec model.Spec) intent.Write {
		w := intent.Write{Key: intent.Key{Kind: kind, Namespace: "default", Name: name}}
		if kind == "Namespace" {
			w.Namespace = ""
		}
		if spec != nil {
			w.Body = encodeSpec(t, kind, w.Namespace, name, nil, spec)
		}
		return w
	}
	expect := func(name string, reviewed bool, writes ...intent.Write) {
		t.Helper()
		impact, err := h.p.Preview(t.Context(), writes, false)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var want []string
		if reviewed {
			want = []string{"p1"}
		}
		if !slices.Equal(impact.Reviewed, want) {
			t.Errorf("%s: review of %q, want %q", name, impact.Reviewed, want)
		}
	}
	b := motdDirective("b")
	expect("a changed directive waits in its roll-out", false, write("Directive", "everywhere", b))
	expect("a changed technique", false, write("Technique", "motd", motdTechnique("message")))
	expect("a directive of another node", false, write("Directive", "laboratory", b))
	expect("a check", false, write("Check", "load", commandCheck("true", &model.Targets{Nodes: []string{"p1"}})))
	expect("a label of the node", false, intent.Write{Key: intent.Key{Kind: "Node", Namespace: "default", Name: "p1"}, Body: encodeSpec(t, "Node", "default", "p1", map[string]string{"a": "b"}, &model.NodeSpec{})})
	expect("another node's mode", false, write("Node", "l1", &model.NodeSpec{PolicyMode: model.ModeEnforce}))
	expect("a new group with review", false, write("Group", "dmz", &model.GroupSpec{Nodes: []string{"l1"}, Review: true}))
	expect("the end of the node", false, write("Node", "p1", nil))

	expect("a new directive", true, write("Directive", "new", b), write("Policy", "new", on("new", "p1")))
	expect("a new target", true, write("Policy", "laboratory", on("laboratory", "l1", "p1")))
	expect("a lost target", true, write("Policy", "everywhere", on("everywhere", "l1")))
	expect("a deleted policy", true, write("Policy", "everywhere", nil))
	expect("a disabled directive", true, write("Directive", "everywhere", &model.DirectiveSpec{Technique: "motd", Parameters: b.Parameters, Disabled: true}))
	expect("the mode of the node", true, write("Node", "p1", &model.NodeSpec{PolicyMode: model.ModeEnforce}))
	expect("the mode of the namespace", true, write("Namespace", "default", &model.NamespaceSpec{PolicyMode: &model.NamespacePolicyMode{Mode: model.ModeEnforce}}))
	expect("a property that a directive reads", true, write("Node", "p1", &model.NodeSpec{Properties: map[string]json.RawMessage{"site": json.RawMessage(`"x"`)}}))
	silent := motdTechnique("message")
	silent.MultiInstance = true
	expect("a property that a directive reads until its change is approved", true, write("Technique", "motd", silent),
		write("Node", "p1", &model.NodeSpec{Properties: map[string]json.RawMessage{"site": json.RawMessage(`"x"`)}}))
	loud := *technique
	loud.Methods = slices.Clone(technique.Methods)
	loud.Methods[0].FileContent = &model.FileContentMethod{Path: technique.Methods[0].FileContent.Path, Content: "{{ .props.city }}{{ .props.site }}"}
	expect("a property that only a waiting change reads", false, write("Technique", "motd", &loud),
		write("Node", "p1", &model.NodeSpec{Properties: map[string]json.RawMessage{"city": json.RawMessage(`"x"`)}}))
	city := write("Node", "p1", &model.NodeSpec{Properties: map[string]json.RawMessage{"city": json.RawMessage(`"x"`)}})
	everywhere := write("Property", "city", &model.PropertySpec{Property: "city", Value: json.RawMessage(`"y"`)})
	expect("a property that nothing reads", false, city)
	h.apply("Technique", "default", "motd", nil, &loud)
	expect("a property that a waiting version reads", true, city)
	expect("a property of the namespace that a waiting version reads", true, everywhere)
	expect("another property than a waiting version reads", false, write("Node", "p1", &model.NodeSpec{Properties: map[string]json.RawMessage{"town": json.RawMessage(`"x"`)}}))
	h.apply("Technique", "default", "motd", nil, technique)
	expect("a property after the end of the version that read it", false, city)
	expect("a waiver", true, write("Waiver", "w", &model.WaiverSpec{Directive: "everywhere", Targets: &model.Targets{Nodes: []string{"p1"}}, Reason: "a", Expires: model.Time{Time: time.Unix(2e9, 0)}}))
	expect("no review any more", true, write("Group", "production", &model.GroupSpec{Nodes: []string{"p1"}}))
	expect("the node leaves", true, write("Group", "production", &model.GroupSpec{Review: true}))
	expect("no group any more", true, write("Group", "production", nil))

	// A Secret of a directive on the node.
	h.apply("Secret", "default", "word", nil, &model.SecretSpec{Env: "WORD"})
	h.apply("Secret", "default", "other", nil, &model.SecretSpec{Env: "OTHER"})
	h.apply("Technique", "default", "secret", nil, &model.TechniqueSpec{Parameters: []model.Parameter{{Name: "word", Type: model.SecretParameter}},
		Methods: []model.Method{{Component: "file", FileContent: &model.FileContentMethod{Path: "/word", Content: "{{ .params.word }}"}}}})
	h.apply("Directive", "default", "secret", nil, &model.DirectiveSpec{Technique: "secret", Parameters: map[string]model.ParameterValue{"word": model.TextValue("word")}})
	h.apply("Policy", "default", "secret", nil, on("secret", "p1"))
	expect("another place of a secret", true, write("Secret", "word", &model.SecretSpec{Env: "WORDS"}))
	expect("another lease of a secret", false, write("Secret", "word", &model.SecretSpec{Env: "WORD", Lease: model.Duration(time.Minute)}))
	expect("a secret that no directive of the node reads", false, write("Secret", "other", &model.SecretSpec{Env: "WORDS"}))

	// An undo gives nodes the version before at once, without a roll-out.
	a := motdDirective("a")
	h.apply("Directive", "default", "everywhere", nil, b)
	expect("an undo before the approval", false, write("Directive", "everywhere", a))
	rows, err := h.List(t.Context(), intent.ListQuery{Kind: intent.RolloutKind})
	if err != nil || len(rows) != 1 {
		t.Fatalf("roll-outs %v, %v", rows, err)
	}
	r, _ := intent.DecodeRollout(rows[0])
	r.State, r.Bound = model.RolloutRunning, model.AllNodes
	h.write(rolloutWrite(t, rows[0].Key, r))
	expect("an undo under way", true, write("Directive", "everywhere", a))
	expect("the change that is under way", false, write("Directive", "everywhere", b))
	expect("a change takes the approved one back", true, write("Directive", "everywhere", motdDirective("c")))
	r.Previous, r.Accepted, r.State = r.Accepted, r.Candidate, model.RolloutDone
	h.write(rolloutWrite(t, rows[0].Key, r))
	expect("a change back", false, write("Directive", "everywhere", a))
	r.Accepted, r.Candidate, r.State = r.Previous, r.Previous, model.RolloutUndone
	expect("an undo after the end", true, write("Directive", "everywhere", a), rolloutWrite(t, rows[0].Key, r))

	// A new version that waits reads a Secret.
	reading := &model.DirectiveSpec{Technique: "secret", Parameters: map[string]model.ParameterValue{"word": model.TextValue("other")}}
	moved := write("Secret", "other", &model.SecretSpec{Env: "WORDS"})
	expect("a secret that a new version in the same change reads", false, write("Directive", "secret", reading), moved)
	h.apply("Directive", "default", "secret", nil, reading)
	expect("a secret that a waiting version reads", true, moved)
}

// TestReviewOfInterruptedChanges interrupts a change between commit and compilation, and expects an approval
// request after the restart. The change is of a directive on a node with review. This is what a crash leaves.
// Own steps of the directive change nothing, nor does another start.
func TestReviewOfInterruptedChanges(t *testing.T) {
	for name, steps := range map[string]*model.RolloutSpec{"without steps": nil, "with steps": {Steps: []string{"50%"}}} {
		t.Run(name, func(t *testing.T) {
			h := newTestPlanner(t)
			h.node("p1", nil)
			h.apply("Group", "default", "production", nil, &model.GroupSpec{Nodes: []string{"p1"}, Review: true})
			h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
			h.apply("Policy", "default", "all", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Nodes: []string{"p1"}}})
			declare := func(text string) {
				d := motdDirective(text)
				d.Rollout = steps
				h.apply("Directive", "default", "hello", nil, d)
			}
			expect := func(text string) (r model.Rollout) {
				t.Helper()
				rows, err := h.List(t.Context(), intent.ListQuery{Kind: intent.RolloutKind})
				if err != nil || len(rows) != 1 {
					t.Fatalf("roll-outs %v, %v", rows, err)
				}
				r, _ = intent.DecodeRollout(rows[0])
				if got := h.directiveOn("p1", "hello").Parameters["text"]; got != text || r.State == model.RolloutRequested != r.UnderWay() {
					t.Errorf("the node has %q, want %q; roll-out %+v", got, text, r)
				}
				return r
			}
			interrupt := func(text string) {
				p := h.p
				h.p = nil
				declare(text)
				h.p = p
				h.start()
			}
			declare("a")
			interrupt("b")
			r := expect("a")
			r.Previous, r.Accepted, r.State = r.Accepted, r.Candidate, model.RolloutDone
			h.write(rolloutWrite(t, intent.RolloutKey(r.Unit), r))
			expect("b")
			h.start()
			expect("b")
			interrupt("a") // its definition is stored
			expect("b")
			interrupt("c")
			expect("b")
		})
	}
}

// TestDeletedNodeKeepsReview deletes a node of a group with review, changes its directive, and adds the node again. It expects the change to wait for an approval, and the approved version on the node.
func TestDeletedNodeKeepsReview(t *testing.T) {
	for name, targets := range map[string]*model.Targets{"group": {Groups: []string{"production"}}, "node": {Nodes: []string{"p1"}}} {
		t.Run(name, func(t *testing.T) {
			h := newTestPlanner(t)
			h.node("p1", nil)
			h.apply("Group", "default", "production", nil, &model.GroupSpec{Nodes: []string{"p1"}, Review: true})
			h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
			h.apply("Directive", "default", "hello", nil, motdDirective("a"))
			h.apply("Policy", "default", "production", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: targets})
			h.write(intent.Write{Key: intent.Key{Kind: "Node", Namespace: "default", Name: "p1"}})
			h.apply("Directive", "default", "hello", nil, motdDirective("b"))
			h.node("p1", nil)
			if got := h.directiveOn("p1", "hello").Parameters["text"]; got != "a" {
				t.Errorf("the node has %q, want a", got)
			}
			rows, err := h.List(t.Context(), intent.ListQuery{Kind: intent.RolloutKind})
			if err != nil || len(rows) != 1 {
				t.Fatalf("roll-outs %v, %v", rows, err)
			}
			r, _ := intent.DecodeRollout(rows[0])
			if r.State != model.RolloutRequested {
				t.Errorf("roll-out %+v", r)
			}
			r.Previous, r.Accepted, r.State = r.Accepted, r.Candidate, model.RolloutDone
			h.write(rolloutWrite(t, rows[0].Key, r))
			if got := h.directiveOn("p1", "hello").Parameters["text"]; got != "b" {
				t.Errorf("the node has %q after the approval, want b", got)
			}
		})
	}
}

// TestApprovalWarningsNameTheChange changes two techniques and a group in one preview, and expects each warning
// at the right technique. It expects the warning of each waiting directive at the technique of the directive.
func TestApprovalWarningsNameTheChange(t *testing.T) {
	h := newTestPlanner(t)
	h.node("p1", nil)
	h.apply("Group", "default", "production", nil, &model.GroupSpec{Nodes: []string{"p1"}, Review: true})
	names := []string{"first", "second"}
	writes := []intent.Write{{Key: intent.Key{Kind: "Group", Namespace: "default", Name: "production"}}}
	writes[0].Body = encodeSpec(t, "Group", "default", "production", nil, &model.GroupSpec{Nodes: []string{"p1"}, Review: true})
	for _, name := range names {
		h.apply("Technique", "default", name, nil, motdTechnique("message"))
		d := motdDirective("a")
		d.Technique = name
		h.apply("Directive", "default", name, nil, d)
		h.apply("Policy", "default", name, nil, &model.PolicySpec{Directives: []string{name}, Targets: &model.Targets{Nodes: []string{"p1"}}})
		w := intent.Write{Key: intent.Key{Kind: "Technique", Namespace: "default", Name: name}}
		changed := motdTechnique("message")
		changed.Methods[0].FileContent.Content = "other"
		w.Body = encodeSpec(t, "Technique", "default", name, nil, changed)
		writes = append(writes, w)
	}
	impact, err := h.p.Preview(t.Context(), writes, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := impact.Placements[0].Warnings; len(got) > 0 {
		t.Errorf("warnings of the group: %q", got)
	}
	for i, name := range names {
		if got := impact.Placements[i+1].Warnings; len(got) != 1 || !strings.Contains(got[0], "muster rollout approve "+name) {
			t.Errorf("warnings of technique %s: %q", name, got)
		}
	}
}

// TestRequestedDirectiveWarnsWithoutNodes deletes the node of a directive whose change waits, and previews a further change. It
// expects the warning that this change waits, too, because it takes the steps of the one before.
func TestRequestedDirectiveWarnsWithoutNodes(t *testing.T) {
	h := newTestPlanner(t)
	h.node("p1", nil)
	h.apply("Group", "default", "production", nil, &model.GroupSpec{Nodes: []string{"p1"}, Review: true})
	h.apply("Technique", "default", "motd", nil, motdTechnique("message"))
	h.apply("Directive", "default", "hello", nil, motdDirective("a"))
	h.apply("Policy", "default", "everywhere", nil, &model.PolicySpec{Directives: []string{"hello"}, Targets: &model.Targets{Where: "true"}})
	h.apply("Directive", "default", "hello", nil, motdDirective("b"))
	h.write(intent.Write{Key: intent.Key{Kind: "Node", Namespace: "default", Name: "p1"}})
	w := intent.Write{Key: intent.Key{Kind: "Directive", Namespace: "default", Name: "hello"}}
	w.Body = encodeSpec(t, "Directive", "default", "hello", nil, motdDirective("c"))
	impact, err := h.p.Preview(t.Context(), []intent.Write{w}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := impact.Placements[0].Warnings; len(got) != 1 || !strings.Contains(got[0], "muster rollout approve hello") {
		t.Errorf("warnings %q", got)
	}
	h.apply("Directive", "default", "hello", nil, motdDirective("c"))
	h.node("p1", nil)
	if got := h.directiveOn("p1", "hello").Parameters["text"]; got != "a" {
		t.Errorf("the node has %q, want a", got)
	}
}
