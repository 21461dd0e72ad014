package alertmanager

import (
	"context"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// spot is where an alert belongs.
type spot struct {
	namespace string
	check     directory.PassiveCheck
	node      model.NodeID
	name      string // of the node
}

// source is the value of model.SourceLabel of what is made for alerts.
const source = model.SourceAlerts

// find finds the check and the node of each alert that is not refused yet, and makes what is missing, all in one
// change.
func (s *Server) find(ctx context.Context, by intent.Actor, namespace string, alerts []Alert, of []outcome) (found []spot, refused []refusal, err error) {
	found = make([]spot, len(alerts))
	look := func() (missing []model.Resource) {
		refused = refused[:0]
		named := map[string]bool{}
		for i := range alerts {
			if of[i] != outcomes {
				continue
			}
			at := &found[i]
			*at = spot{namespace: namespace}
			resources, out, why := s.locate(at, &alerts[i])
			if why != "" {
				refused = append(refused, refusal{i, out, why})
			}
			for _, r := range resources {
				if key := r.Kind + " " + r.Metadata.Name; !named[key] {
					named[key] = true
					missing = append(missing, r)
				}
			}
		}
		return missing
	}
	if len(look()) > 0 {
		if err := s.make(ctx, by, namespace, look); err != nil {
			return nil, nil, err
		}
	}
	refused = slices.Clone(refused)
	for i := range alerts {
		if of[i] == outcomes && (found[i].check.Chunk == nil || found[i].node == 0) && !slices.ContainsFunc(refused, func(r refusal) bool { return r.index == i }) {
			if alerts[i].left <= 0 {
				of[i] = resolved // of what nobody knows
				continue
			}
			refused = append(refused, refusal{i, places, fmt.Sprintf("namespace %s has its %d passive checks, or its %d nodes for alerts: no more are made", namespace, s.cfg.Limits.Checks, s.cfg.Limits.Nodes)})
		}
	}
	return found, refused, nil
}

// locate finds the place of one alert; why is set where it can have none, and missing names what is to
// be made.
func (s *Server) locate(at *spot, a *Alert) (missing []model.Resource, out outcome, why string) {
	fires := a.left > 0
	name := model.CleanName(a.Labels["alertname"])
	if name == "" {
		return nil, malformed, "its alertname has nothing of which a name could be made"
	}
	if model.BuiltinCheck(name) != 0 {
		return nil, taken, fmt.Sprintf("check %s is built in: give the alert another name", name)
	}
	check, ok := s.cfg.Plan.PassiveCheck(at.namespace, name)
	switch {
	case ok && check.Chunk == nil:
		return nil, taken, fmt.Sprintf("check %s is run by agents: give one of them another name", name)
	case ok && check.Source == model.SourceSensu:
		return nil, taken, fmt.Sprintf("check %s is of events that Sensu's agents bring: give one of them another name", name)
	case ok && check.Disabled:
		return nil, unwanted, fmt.Sprintf("check %s is disabled", name)
	case !ok && fires:
		missing = append(missing, resource("Check", at.namespace, name, a.Labels["alertname"], &model.CheckSpec{Passive: true}))
	}
	at.check = check
	names := about(a.Labels)
	for _, candidate := range names {
		if id, ok := s.cfg.Plan.NodeByName(at.namespace, candidate); ok {
			at.node, at.name = id, candidate
			return missing, 0, ""
		}
	}
	if last := names[len(names)-1]; fires {
		missing = append(missing, resource("Node", at.namespace, last, "", &model.NodeSpec{Proxy: true}))
	}
	return missing, 0, ""
}

func resource(kind, namespace, name, display string, spec model.Spec) model.Resource {
	if display = oneLine(display); display == name || len(display) > 200 {
		display = ""
	}
	return model.Resource{
		APIVersion: model.APIVersion, Kind: kind, Spec: spec,
		Metadata: model.Metadata{Name: name, Namespace: namespace, DisplayName: display, Labels: map[string]string{model.SourceLabel: source}},
	}
}

// make makes what look misses, as far as there is room, and lets it look again.
func (s *Server) make(ctx context.Context, by intent.Actor, namespace string, look func() []model.Resource) error {
	s.making.Lock()
	defer s.making.Unlock()
	by.Why = fmt.Sprintf("named by alerts that %s brought in", by.User)
	var err error
	for range makeTries {
		missing := s.within(namespace, look()) // somebody else may have made some of it
		if len(missing) == 0 {
			break
		}
		none := map[intent.Key]int64{} // what an operator has applied just now is not written over
		for i := range missing {
			none[intent.KeyOf(&missing[i])] = 0
		}
		_, err = s.cfg.Intent.Apply(ctx, by, missing, intent.ApplyOptions{Yes: true, Expect: none})
		there := model.ClassOf(err) == model.Stale || model.ClassOf(err) == model.Conflict
		if err != nil && !there {
			break
		}
		if caught := s.cfg.Plan.CatchUp(ctx); caught != nil {
			err = caught
			break
		}
		if !there {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("make what the alerts are about: %w", err)
	}
	look()
	return nil
}

// makeTries: what is missing may be applied by somebody else meanwhile.
const makeTries = 3

// within is what of missing there is room for.
func (s *Server) within(namespace string, missing []model.Resource) []model.Resource {
	checks := s.cfg.Limits.Checks - s.checksIn(namespace)
	nodes := s.cfg.Limits.Nodes - len(s.cfg.Plan.NodesMatching(namespace, ofAlerts()))
	return slices.DeleteFunc(missing, func(r model.Resource) bool {
		room := &nodes
		if r.Kind == "Check" {
			room = &checks
		}
		*room--
		return *room < 0
	})
}

func (s *Server) checksIn(namespace string) (n int) {
	for _, id := range s.cfg.Plan.PassiveChecks("", "") {
		if ns, _, _ := s.cfg.Plan.CheckName(id); ns == namespace {
			n++
		}
	}
	return n
}

func ofAlerts() directory.Selector {
	selector, err := directory.ParseSelector(model.SourceLabel + "=" + source)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return selector
}
