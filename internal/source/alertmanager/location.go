package alertmanager

import (
	"context"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
)

// location is the check and the node of an alert.
type location struct {
	namespace string
	check     directory.PassiveCheck
	node      model.NodeID
	name      string // of the node
}

// source is the value of model.SourceLabel of checks and nodes that are created for alerts.
const source = model.SourceAlerts

// locateAll finds the check and the node of each alert that is not refused yet, and creates the missing ones in one change.
func (s *Server) locateAll(ctx context.Context, by intent.Actor, namespace string, alerts []Alert, of []outcome) (found []location, refused []refusal, err error) {
	found = make([]location, len(alerts))
	look := func() (missing []model.Resource) {
		refused = refused[:0]
		named := map[string]bool{}
		for i := range alerts {
			if of[i] != outcomes {
				continue
			}
			at := &found[i]
			*at = location{namespace: namespace}
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
		if err := s.create(ctx, by, namespace, look); err != nil {
			return nil, nil, err
		}
	}
	refused = slices.Clone(refused)
	for i := range alerts {
		if of[i] == outcomes && (found[i].check.Chunk == nil || found[i].node == 0) && !slices.ContainsFunc(refused, func(r refusal) bool { return r.index == i }) {
			if alerts[i].lifetime <= 0 {
				of[i] = resolved // nothing fires there
				continue
			}
			refused = append(refused, refusal{i, noLocation, fmt.Sprintf("namespace %s is at its limit of %d passive checks, or of %d nodes for alerts", namespace, s.cfg.Limits.Checks, s.cfg.Limits.Nodes)})
		}
	}
	return found, refused, nil
}

// locate finds the check and node of one alert. A reason refuses the alert; missing lists the resources to create.
func (s *Server) locate(at *location, a *Alert) (missing []model.Resource, out outcome, why string) {
	fires := a.lifetime > 0
	name := model.CleanName(a.Labels["alertname"])
	if name == "" {
		return nil, malformed, "its alertname has no character that a name of a check may have"
	}
	if model.BuiltinCheck(name) != 0 {
		return nil, nameTaken, fmt.Sprintf("check %s is built in: rename the alert", name)
	}
	check, ok := s.cfg.Plan.PassiveCheck(at.namespace, name)
	switch {
	case ok && check.Chunk == nil:
		return nil, nameTaken, fmt.Sprintf("check %s is run by agents: rename the alert or the check", name)
	case ok && check.Source == model.SourceSensu:
		return nil, nameTaken, fmt.Sprintf("check %s belongs to events of Sensu agents: rename the alert or the check", name)
	case ok && check.Disabled:
		return nil, disabled, fmt.Sprintf("check %s is disabled", name)
	case !ok && fires:
		missing = append(missing, resource("Check", at.namespace, name, a.Labels["alertname"], &model.CheckSpec{Passive: true}))
	}
	at.check = check
	names := nodeNames(a.Labels)
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

// create creates the resources that look returns, within the limits, and calls look again.
func (s *Server) create(ctx context.Context, by intent.Actor, namespace string, look func() []model.Resource) error {
	s.creation.Lock()
	defer s.creation.Unlock()
	by.Why = fmt.Sprintf("named by alerts that %s sent", by.User)
	var err error
	for range maxCreateTries {
		missing := s.withinLimits(namespace, look()) // another request may have created some
		if len(missing) == 0 {
			break
		}
		expect := map[intent.Key]int64{} // no resource that an operator has just applied is overwritten
		for i := range missing {
			expect[intent.KeyOf(&missing[i])] = 0
		}
		_, err = s.cfg.Intent.Apply(ctx, by, missing, intent.ApplyOptions{Yes: true, Expect: expect})
		exists := model.ClassOf(err) == model.Stale || model.ClassOf(err) == model.Conflict
		if err != nil && !exists {
			break
		}
		if caught := s.cfg.Plan.CatchUp(ctx); caught != nil {
			err = caught
			break
		}
		if !exists {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("create the checks and nodes of alerts: %w", err)
	}
	look()
	return nil
}

// maxCreateTries bounds the retries when an operator applies one of the resources at the same time.
const maxCreateTries = 3

// withinLimits returns the missing resources for which the namespace has room.
func (s *Server) withinLimits(namespace string, missing []model.Resource) []model.Resource {
	checks := s.cfg.Limits.Checks - s.countChecks(namespace)
	nodes := s.cfg.Limits.Nodes - len(s.cfg.Plan.NodesMatching(namespace, sourceSelector()))
	return slices.DeleteFunc(missing, func(r model.Resource) bool {
		room := &nodes
		if r.Kind == "Check" {
			room = &checks
		}
		*room--
		return *room < 0
	})
}

func (s *Server) countChecks(namespace string) (n int) {
	for _, id := range s.cfg.Plan.PassiveChecks("", "") {
		if ns, _, _ := s.cfg.Plan.CheckName(id); ns == namespace {
			n++
		}
	}
	return n
}

func sourceSelector() directory.Selector {
	selector, err := directory.ParseSelector(model.SourceLabel + "=" + source)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return selector
}
