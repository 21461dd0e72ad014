package routing

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/notification"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/route"
)

const silencesPath = "/api/v1/silences"

func registerSilences(at subject) {
	op.Handle(at, op.ChangesResources(op.Post("silence", silencesPath, "silences", "Keep people from being told of some problems, for a while", model.NotFound)), access.On(access.Operate, "Silence"), (*request).silence)
	op.Handle(at, op.ChangesResources(op.Post("endSilence", silencesPath+"/{namespace}/{name}/end", "silences", "End a silence: what it holds and is still open is told", model.NotFound)), access.On(access.Operate, "Silence"), (*request).endSilence)
}

// silence creates a silence. Operators may, though they may not apply.
func (s *request) silence(ctx context.Context, in *struct{ Body v1.SilenceRequest }) (*op.Body[v1.Silenced], error) {
	b := &in.Body
	decoded, err := s.Kinds.DecodeSpec("Silence", b.Spec)
	if err != nil {
		return nil, err
	}
	spec := decoded.(*model.SilenceSpec)
	if err := s.RequireNamespace(ctx, b.Namespace); err != nil {
		return nil, err
	}
	if !spec.Until.IsZero() && !spec.Until.After(s.Now()) {
		return nil, model.Errorf(model.Invalid, "until %s is over", spec.Until.UTC().Format("2006-01-02 15:04 MST")).WithHint("a silence ends in the future")
	}
	nodes, all, first, err := notification.CoveredNodes(s.View, b.Namespace, &spec.Selector)
	if err != nil {
		return nil, err
	}
	if most := cmp.Or(b.MaxAffected, max(50, all/5)); nodes > most && !b.Yes && !b.DryRun {
		return nil, model.Errorf(model.Guarded, "this would silence %d nodes (%s); without --yes at most %d", nodes, firstOf(first, nodes), most).
			WithHint("look at what it covers with --dry-run, then repeat with --yes, or with --max-affected %d", nodes)
	}
	holds, err := s.countCovered(ctx, b.Namespace, &spec.Selector)
	if err != nil {
		return nil, err
	}
	name, err := s.createSilence(ctx, b, spec)
	if err != nil {
		return nil, err
	}
	return op.Answer(v1.Silenced{Namespace: b.Namespace, Name: name, Nodes: nodes, First: first, Holds: holds, Until: spec.Until.Time, DryRun: b.DryRun}), nil
}

// firstOf lists the first of a number of nodes.
func firstOf(first []string, all int) string {
	text := strings.Join(first, ", ")
	if more := all - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// maxSameName bounds the silences of one generated name, which has a resolution of a second.
const maxSameName = 100

// createSilence applies a silence under a name that is free.
func (s *request) createSilence(ctx context.Context, b *v1.SilenceRequest, spec *model.SilenceSpec) (string, error) {
	made := silenceName(spec) + "-" + s.Now().UTC().Format("20060102-150405")
	for i := 1; ; i++ {
		name := cmp.Or(b.Name, made)
		if i > 1 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		key := intent.Key{Kind: "Silence", Namespace: b.Namespace, Name: name}
		_, err := s.Intent.Apply(ctx, access.Author(ctx, spec.Reason), []model.Resource{{Kind: "Silence", Metadata: model.Metadata{Namespace: b.Namespace, Name: name}, Spec: spec}},
			intent.ApplyOptions{DryRun: b.DryRun, Yes: true, Expect: map[intent.Key]int64{key: 0}})
		switch {
		case err == nil:
			return name, nil
		case model.ClassOf(err) != model.Stale && model.ClassOf(err) != model.Conflict:
			return "", err
		case b.Name != "":
			return "", model.Errorf(model.Conflict, "there is a silence %s already", name).WithHint("muster describe silence %s; leave the name out, and it gets one", name)
		case i == maxSameName:
			return "", err
		}
	}
}

// silenceName is the beginning of a generated name: the one node, group or check that the silence
// covers.
func silenceName(spec *model.SilenceSpec) string {
	var parts []string
	if t := spec.Targets; t != nil && len(t.Nodes)+len(t.Groups) == 1 {
		parts = append(append(parts, t.Nodes...), t.Groups...)
	}
	if len(spec.Checks) == 1 {
		parts = append(parts, spec.Checks[0])
	}
	name := strings.ReplaceAll(strings.Join(parts, "-"), "/", "-")
	return cmp.Or(name[:min(len(name), 200)], "silence")
}

// countCovered counts the open problems that a selector covers.
func (s *request) countCovered(ctx context.Context, namespace string, selector *model.Selector) (n int, err error) {
	picks, err := route.MatchFunc(namespace, selector)
	if err != nil {
		return 0, err
	}
	err = notification.EachProblem(ctx, s.View, func(m *route.Problem) {
		if picks(m) {
			n++
		}
	})
	return n, err
}

func (s *request) endSilence(ctx context.Context, in *struct {
	op.NamedPath
	Body v1.Action
}) (*op.Body[v1.Silenced], error) {
	key := intent.Key{Kind: "Silence", Namespace: in.Namespace, Name: in.Name}
	r, err := s.Intent.Get(ctx, key)
	if err != nil {
		return nil, s.NotFound(ctx, err, key)
	}
	held := notification.NewHoldCounter(s.View)
	out := v1.Silenced{Namespace: in.Namespace, Name: in.Name}
	if spec, ok := r.Spec.(*model.SilenceSpec); ok && notification.SilenceActive(spec, s.Now()) {
		out.Holds = held.Count(route.Name{Namespace: in.Namespace, Name: in.Name})
	}
	if _, err := s.Intent.Delete(ctx, access.Author(ctx, cmp.Or(in.Body.Note, "ended")), []intent.Key{key}, intent.ApplyOptions{Yes: true}); err != nil {
		return nil, s.NotFound(ctx, err, key)
	}
	return op.Answer(out), nil
}
