package sensu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// making makes passive checks, one after the other: those who come with the same name at the
// same time wait for one of them.
type making struct {
	mu     sync.Mutex
	failed time.Time // when nothing could be changed
}

const (
	makeWithin = 10 * time.Second
	makeAgain  = 5 * time.Second // after it could not

	// notCarried is the annotation of what an event named and that is not there.
	notCarried = "sensu-agent/not-carried"
)

// passive makes the check of an event, unless it is there by now.
func (m *making) passive(x *session, name string, said *sensuwire.Said) (directory.PassiveCheck, error) {
	s := x.srv
	m.mu.Lock()
	defer m.mu.Unlock()
	if check, ok := s.cfg.Checks.PassiveCheck(x.namespace, name); ok {
		if check.Chunk == nil || check.Disabled {
			return check, model.Errorf(model.Conflict, "somebody declared it meanwhile")
		}
		return check, nil
	}
	if n := len(s.cfg.Checks.PassiveChecks(x.namespace, "")); n >= model.MaxPassives {
		reason := fmt.Sprintf("the namespace has its %d passive checks: no more are made", n)
		x.budget.Hit("namespace_passive", reason)
		return directory.PassiveCheck{}, model.Errorf(model.Limited, "%s", reason)
	}
	if now := s.cfg.Now(); now.Sub(m.failed) < makeAgain {
		return directory.PassiveCheck{}, model.Errorf(model.Unavailable, "nothing could be declared a moment ago")
	}
	ctx, cancel := context.WithTimeout(s.base, makeWithin)
	defer cancel()
	check, err := s.declare(ctx, x, name, said)
	if err != nil && model.ClassOf(err) != model.Invalid {
		m.failed = s.cfg.Now()
	}
	return check, err
}

// declare applies the check, and waits until it is in force.
func (s *Server) declare(ctx context.Context, x *session, name string, said *sensuwire.Said) (check directory.PassiveCheck, err error) {
	rules, err := x.codec.ReadRules(said)
	if err != nil {
		return check, err
	}
	spec, missing, err := s.specOf(ctx, x.namespace, said, &rules)
	if err != nil {
		return check, err
	}
	r := model.Resource{APIVersion: model.APIVersion, Kind: "Check", Spec: spec,
		Metadata: model.Metadata{Name: name, Namespace: x.namespace, Labels: map[string]string{model.SourceLabel: model.SourceSensu}}}
	if len(missing) > 0 {
		r.Metadata.Annotations = map[string]string{notCarried: strings.Join(missing, ", ")}
	}
	by := intent.Actor{User: x.user.Name, Whence: hostOf(x.conn.NetConn()), Why: "the Sensu agent of " + x.node.Name + " brought an event of it, which nobody asked for"}
	_, err = s.cfg.Intent.Apply(ctx, by, []model.Resource{r}, intent.ApplyOptions{Yes: true, Expect: map[intent.Key]int64{intent.KeyOf(&r): 0}})
	there := model.ClassOf(err) == model.Stale || model.ClassOf(err) == model.Conflict // somebody applied it just now
	if err != nil && !there {
		return check, err
	}
	if err := s.cfg.Checks.CatchUp(ctx); err != nil {
		return check, err
	}
	check, _ = s.cfg.Checks.PassiveCheck(x.namespace, name)
	switch {
	case there && (check.Chunk == nil || check.Disabled):
		return check, model.Errorf(model.Conflict, "somebody declared it meanwhile")
	case check.Chunk == nil:
		return check, model.Errorf(model.Unavailable, "it was made, and is there no more")
	case there:
		return check, nil
	}
	s.cfg.Log.Info("a passive check was made of an event that nobody asked for", "check", name, "namespace", x.namespace, "node", x.node.Name, "not carried", missing)
	return check, nil
}

// specOf is what an event says of its check, as far as it can be kept; missing is what it
// names and that is not there.
func (s *Server) specOf(ctx context.Context, namespace string, said *sensuwire.Said, rules *sensuwire.Rules) (spec *model.CheckSpec, missing []string, err error) {
	spec = &model.CheckSpec{Passive: true}
	if said.TTL >= 1 && said.TTL <= int64(model.MaxInterval/time.Second) {
		spec.TTL = model.Duration(time.Duration(said.TTL) * time.Second)
	}
	alert := &model.Alert{}
	if high, low := int(rules.FlapHigh), int(rules.FlapLow); high >= 2 && high <= 100 && low > 0 && low < high {
		alert.Flapping = &model.Flapping{Start: high, End: low}
	}
	exists := func(kind, name string) bool {
		if err != nil || model.NameError(name) != nil {
			return false
		}
		_, failed := s.cfg.Intent.Get(ctx, intent.Key{Kind: kind, Namespace: namespace, Name: name})
		if failed != nil && model.ClassOf(failed) != model.NotFound {
			err = failed
		}
		return failed == nil
	}
	add := func(list []string, name string) []string {
		if slices.Contains(list, name) {
			return list
		}
		return append(list, name)
	}
	for _, named := range few(rules.Pipelines) {
		if name := model.CleanName(named); exists("Pipeline", name) {
			spec.Pipelines = add(spec.Pipelines, name)
		} else {
			missing = append(missing, "pipeline "+short(named))
		}
	}
	for _, named := range few(rules.Handlers) {
		name := model.CleanName(named)
		switch _, there := s.cfg.Handler(namespace, name); {
		case exists("Pipeline", model.SensuPipeline(name)): // an import made it: the handler reads Sensu's events
			spec.Pipelines = add(spec.Pipelines, model.SensuPipeline(name))
		case there:
			alert.Handlers = add(alert.Handlers, name)
		default:
			missing = append(missing, "handler "+short(named))
		}
	}
	if alert.Flapping != nil || alert.Handlers != nil {
		spec.Alert = alert
	}
	return spec, missing, err
}

// few bounds what is looked up of an event's words.
func few(list []string) []string { return list[:min(len(list), 16)] }

// short is a name as it can stand in an annotation.
func short(name string) string { return fmt.Sprintf("%.100q", name) }
