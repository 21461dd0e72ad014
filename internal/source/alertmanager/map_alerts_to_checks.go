package alertmanager

import (
	"context"
	"fmt"
	"slices"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
)

// alertLocation has the passive check and the node whose event shows an alert.
type alertLocation struct {
	namespace string
	check     directory.PassiveCheck
	node      model.NodeID
	name      string // name of the node
}

// source is the value of model.SourceLabel of checks and nodes that are created for alerts.
const source = model.SourceAlerts

// locateAlerts finds the check and node of each valid alert. It creates all missing checks and nodes in one apply.
func (s *Server) locateAlerts(ctx context.Context, by intent.Actor, namespace string, alerts []Alert) error {
	look := func() (missing []model.Resource) {
		named := map[string]bool{}
		for i := range alerts {
			if !alerts[i].isUnhandled() {
				continue
			}
			for _, r := range s.locateAlert(&alerts[i], namespace) {
				if key := r.Kind + " " + r.Metadata.Name; !named[key] {
					named[key] = true
					missing = append(missing, r)
				}
			}
		}
		return missing
	}
	if len(look()) > 0 {
		if err := s.createMissing(ctx, by, namespace, look); err != nil {
			return err
		}
	}
	for i := range alerts {
		switch a := &alerts[i]; {
		case !a.isUnhandled() || a.at.check.Definition != nil && a.at.node != 0:
		case a.lifetime <= 0:
			a.out = alertResolved // an ended alert needs no check and no node
		default:
			a.refuse(noLocation, "namespace %s is at its limit of %d passive checks, or of %d nodes for alerts", namespace, s.cfg.Limits.Checks, s.cfg.Limits.Nodes)
		}
	}
	return nil
}

// locateAlert finds the check and node of an alert, or refuses the alert. missing lists the resources to create.
func (s *Server) locateAlert(a *Alert, namespace string) (missing []model.Resource) {
	fires, name := a.lifetime > 0, model.CleanName(a.Labels["alertname"])
	check, ok := s.cfg.Plan.PassiveCheck(namespace, name)
	a.at = alertLocation{namespace: namespace, check: check}
	switch {
	case name == "":
		a.refuse(alertMalformed, "the alertname has no character that is allowed in a check's name")
	case model.BuiltinCheckID(name) != 0:
		a.refuse(nameTaken, "check %s is built in: rename the alert", name)
	case ok && check.Definition == nil:
		a.refuse(nameTaken, "agents run check %s: rename the alert or the check", name)
	case ok && check.Source == model.SourceSensu:
		a.refuse(nameTaken, "check %s belongs to events of Sensu agents: rename the alert or the check", name)
	case ok && check.Disabled:
		a.refuse(disabledCheck, "check %s is disabled", name)
	case !ok && fires:
		missing = append(missing, newResource("Check", namespace, name, a.Labels["alertname"], &model.CheckSpec{Passive: true}))
	}
	if !a.isUnhandled() {
		return nil
	}
	names := NodeNames(a.Labels)
	for _, candidate := range names {
		if a.at.node, ok = s.cfg.Plan.NodeByName(namespace, candidate); ok {
			a.at.name = candidate
			return missing
		}
	}
	if last := names[len(names)-1]; fires {
		missing = append(missing, newResource("Node", namespace, last, "", &model.NodeSpec{Proxy: true}))
	}
	return missing
}

// newResource returns a new Check or Node resource for alerts, with a display name.
func newResource(kind, namespace, name, display string, spec model.Spec) model.Resource {
	if display = oneLine(display); display == name || len(display) > 200 {
		display = ""
	}
	r := core.NewDeclared(source, kind, namespace, name, spec)
	r.Metadata.DisplayName = display
	return r
}

// createMissing creates the missing checks and nodes of alerts, within the namespace's limits.
func (s *Server) createMissing(ctx context.Context, by intent.Actor, namespace string, look func() []model.Resource) error {
	s.creation.Lock()
	defer s.creation.Unlock()
	by.Message = fmt.Sprintf("from alerts of %s", by.User)
	for range maxCreateTries {
		missing := s.withinLimits(namespace, look()) // another request may have created some
		if len(missing) == 0 {
			return nil
		}
		switch exists, err := core.DeclareMissing(ctx, s.cfg.Intent, s.cfg.Plan.CatchUp, by, missing); {
		case err != nil:
			return fmt.Errorf("create checks and nodes for alerts: %w", err)
		case !exists:
			look()
			return nil
		}
	}
	return model.Errorf(model.Conflict, "create checks and nodes for alerts: another user is changing the same checks or nodes").WithHint("send the alerts again")
}

// maxCreateTries limits the retries when an operator applies one of the resources at the same time.
const maxCreateTries = 3

// withinLimits removes, from the checks and nodes to create, all above the namespace's limits.
func (s *Server) withinLimits(namespace string, missing []model.Resource) []model.Resource {
	checks := s.cfg.Limits.Checks - s.countPassiveChecks(namespace)
	nodes := s.cfg.Limits.Nodes - len(s.cfg.Plan.NodesMatching(namespace, alertSourceSelector()))
	return slices.DeleteFunc(missing, func(r model.Resource) bool {
		room := &nodes
		if r.Kind == "Check" {
			room = &checks
		}
		*room--
		return *room < 0
	})
}

// countPassiveChecks counts the checks in a namespace that take their results from outside (passive checks).
func (s *Server) countPassiveChecks(namespace string) (n int) {
	for _, id := range s.cfg.Plan.PassiveChecks("", "") {
		if ns, _, _ := s.cfg.Plan.SourceName(model.CheckSource(id)); ns == namespace {
			n++
		}
	}
	return n
}

// alertSourceSelector returns the label selector of the nodes that were created for alerts.
func alertSourceSelector() directory.Selector {
	selector, err := directory.ParseSelector(model.SourceLabel + "=" + source)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return selector
}
