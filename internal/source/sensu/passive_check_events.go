package sensu

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
	"github.com/muster-fleet/muster/internal/source/core"
)

// eventKey identifies an event by node and check.
type eventKey struct {
	node  model.NodeID
	check model.CheckID
}

// findPassiveDefinition returns the passive check for an event that no assigned check produced. If the namespace allows
// it, a missing check is created. nil: the event is refused.
func (e *incomingEvent) findPassiveDefinition() (c *model.CheckDefinition, proxy directory.ProxyNode, out messageOutcome) {
	if len(e.Proxy) > 0 {
		var ok bool
		if proxy, ok = e.findAssignedProxy(string(e.Proxy)); !ok {
			return nil, proxy, e.refuseProxy()
		}
	}
	name := model.CleanName(string(e.Check))
	if name == "" || model.BuiltinCheckID(name) != 0 {
		return nil, proxy, e.refuseMessage(checkUnassigned, fmt.Sprintf("an event of check %q, which is no valid name of a check", e.Check))
	}
	check, known := e.srv.cfg.Checks.PassiveCheck(e.namespace, name)
	subject := "an event of check " + name + ", which "
	switch {
	case known && check.Definition == nil && check.Disabled:
		return nil, proxy, e.refuseMessage(disabledCheck, subject+"is disabled; to accept such events without running it, replace its command, targets and times by passive: true")
	case known && check.Definition == nil && len(e.Proxy) > 0:
		return nil, proxy, e.refuseProxy()
	case known && check.Definition == nil:
		return nil, proxy, e.refuseMessage(checkUnassigned, subject+"runs on other nodes, not on this one")
	case known && check.Source == model.SourceAlerts:
		return nil, proxy, e.refuseMessage(checkUnassigned, subject+"belongs to alerts of another sender")
	case known && check.Disabled:
		return nil, proxy, e.refuseMessage(disabledCheck, subject+"is disabled")
	case known && check.Source != model.SourceSensu:
		return check.Definition, proxy, resultKept
	}
	// Checks that were created for events, or will be, have a limit of events per node.
	at := eventKey{node: cmp.Or(proxy.ID, e.Node.ID)}
	if known {
		at.check = check.Definition.Unit
		if _, ok := e.admitted[at]; ok {
			return check.Definition, proxy, resultKept
		}
	}
	if !known || !e.srv.cfg.View.HasEvent(at.node, at.check) {
		if out := e.checkPassiveLimit(at, name); out != resultKept {
			return nil, proxy, out
		}
	}
	if !known {
		var err error
		if check, err = e.srv.creation.createCheck(e, name); err != nil {
			return nil, proxy, e.refuseMessage(creationFailed, subject+"creation failed: "+err.Error())
		}
		at.check = check.Definition.Unit
	}
	if e.admitted == nil || len(e.admitted) >= model.MaxPassives {
		e.session.admitted = map[eventKey]struct{}{}
	}
	e.admitted[at] = struct{}{}
	return check.Definition, proxy, resultKept
}

// checkPassiveLimit refuses an event if its node has too many events from automatically created checks.
func (e *incomingEvent) checkPassiveLimit(at eventKey, name string) messageOutcome {
	limit, n := e.srv.cfg.Intent.LimitsFor(e.namespace).PassivePerNode, 0
	if limit <= 0 {
		return e.refuseMessage(checkUnassigned, "an event of check "+name+", which is neither in the node's assignment nor a passive Check: declare it (passive: true), or allow automatic creation (spec.limits.passivePerNode of the namespace)")
	}
	for _, id := range e.srv.cfg.Checks.PassiveChecks(e.namespace, model.SourceSensu) {
		if _, ok := e.admitted[eventKey{at.node, id}]; id != at.check && (ok || e.srv.cfg.View.HasEvent(at.node, id)) {
			n++
		}
	}
	if n < limit {
		return resultKept
	}
	reason := fmt.Sprintf("the node has events of %d created passive checks, the limit passivePerNode; refused: %s", n, name)
	e.Budget.Hit("node_passive", reason)
	return e.refuseMessage(stateLimit, reason)
}

// findAssignedProxy finds a proxy node by name among the proxy nodes of the node's assigned checks. A check in the
// assignment must be about the proxy node.
func (e *incomingEvent) findAssignedProxy(name string) (proxy directory.ProxyNode, ok bool) {
	e.Mu.Lock()
	j := selectJob(e.list, func(j *checkJob) bool {
		return j.proxy.ID != 0 && (j.prepared.request.Proxy == name || j.prepared.request.Proxy == model.CleanName(name))
	})
	e.Mu.Unlock()
	if j == nil || !e.mayReportOn(j.prepared.definition, j.proxy.ID) {
		return proxy, false
	}
	return j.proxy, true
}

// refuseProxy refuses an event about an entity that the agent may not report on.
func (e *incomingEvent) refuseProxy() messageOutcome {
	return e.refuseMessage(otherEntity, "an event of check "+string(e.Check)+" for "+string(e.Proxy)+": an agent may report on its own entity and on the proxy nodes in its assignment")
}

// checkCreator creates passive checks one at a time, so that simultaneous events create each check only once.
// Simultaneous events with one check name then create one check.
type checkCreator struct {
	mu     sync.Mutex
	failed time.Time // time of the last failed change of intent
}

const (
	createTimeout  = 10 * time.Second
	createInterval = 5 * time.Second // shortest time from a failed creation to the next try

	// missingAnnotation lists handlers and pipelines that an event named and that do not exist.
	missingAnnotation = "sensu-agent/not-carried"
)

// createCheck returns the passive check for an event, and creates the check if none exists.
func (m *checkCreator) createCheck(e *incomingEvent, name string) (directory.PassiveCheck, error) {
	s := e.srv
	m.mu.Lock()
	defer m.mu.Unlock()
	if check, ok := s.cfg.Checks.PassiveCheck(e.namespace, name); ok {
		return checkUsable(check)
	}
	if n := len(s.cfg.Checks.PassiveChecks(e.namespace, "")); n >= model.MaxPassives {
		reason := fmt.Sprintf("the namespace is at its limit of %d passive checks", n)
		e.Budget.Hit("namespace_passive", reason)
		return directory.PassiveCheck{}, model.Errorf(model.Limited, "%s", reason)
	}
	if now := s.cfg.Now(); now.Sub(m.failed) < createInterval {
		return directory.PassiveCheck{}, model.Errorf(model.Unavailable, "the creation of a passive check failed less than %s ago, so the server does not try again yet", createInterval)
	}
	ctx, cancel := context.WithTimeout(s.life.Base, createTimeout)
	defer cancel()
	check, err := e.declareCheck(ctx, name)
	if err != nil && model.ClassOf(err) != model.Invalid {
		m.failed = s.cfg.Now()
	}
	return check, err
}

// checkUsable returns an error if the declared check of an event is disabled or not passive. An operator may have
// declared such a check while the event waited.
func checkUsable(check directory.PassiveCheck) (directory.PassiveCheck, error) {
	if check.Definition == nil || check.Disabled {
		return check, model.Errorf(model.Conflict, "the event's check is disabled or not passive: an operator declared it while the event arrived")
	}
	return check, nil
}

// declareCheck creates the passive check for an event, and waits for the planner to apply the check.
func (e *incomingEvent) declareCheck(ctx context.Context, name string) (check directory.PassiveCheck, err error) {
	s := e.srv
	rules, err := e.ReadRules()
	if err != nil {
		return check, err
	}
	spec, missing, err := s.newCheckSpec(ctx, e.namespace, e.ReceivedEvent, &rules)
	if err != nil {
		return check, err
	}
	r := core.NewDeclared(model.SourceSensu, "Check", e.namespace, name, spec)
	r.Metadata.Annotations = map[string]string{}
	addEventMetadata(&r.Metadata, &rules)
	if len(missing) > 0 {
		r.Metadata.Annotations[missingAnnotation] = strings.Join(missing, ", ")
	}
	by := intent.Actor{User: e.user.Name, Address: model.HostOf(e.Conn.NetConn().RemoteAddr().String()),
		Message: "the Sensu agent of " + e.Node.Name + " sent an event of this check, which is in no assignment"}
	exists, err := core.DeclareMissing(ctx, s.cfg.Intent, s.cfg.Checks.CatchUp, by, []model.Resource{r})
	if err != nil {
		return check, err
	}
	check, _ = s.cfg.Checks.PassiveCheck(e.namespace, name)
	switch {
	case exists:
		return checkUsable(check)
	case check.Definition == nil:
		return check, model.Errorf(model.Unavailable, "the server created the passive check of the event, but a user deleted the check immediately")
	}
	s.cfg.Log.Info("created a passive check for an event of a Sensu agent", "check", name, "namespace", e.namespace, "node", e.Node.Name, "missing", missing)
	return check, nil
}

// maxEventMetadata bounds the labels, and the annotations, that a created check takes from its event.
const maxEventMetadata = 64

// addEventMetadata adds the valid labels and annotations in an event's check to the check that the event creates.
// Handlers read settings in annotations. It keeps the labels that the metadata has.
func addEventMetadata(m *model.Metadata, rules *sensuwire.CheckRules) {
	add := func(into, from map[string]string, valid func(key, value string) bool) {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			if _, ok := into[key]; !ok && len(into) < maxEventMetadata && valid(key, from[key]) {
				into[key] = from[key]
			}
		}
	}
	add(m.Labels, rules.Labels, func(key, value string) bool { return model.LabelError(key, value) == nil })
	add(m.Annotations, rules.Annotations, func(key, value string) bool { return model.IsLabelName(key) && len(value) <= maxAnnotationBytes })
}

// newCheckSpec returns the spec for a new passive check, from the fields of an event. missing lists the handlers and
// pipelines that it names and that do not exist.
func (s *Server) newCheckSpec(ctx context.Context, namespace string, received *sensuwire.ReceivedEvent, rules *sensuwire.CheckRules) (spec *model.CheckSpec, missing []string, err error) {
	spec = &model.CheckSpec{Passive: true}
	if received.TTL >= 1 && received.TTL <= int64(model.MaxInterval/time.Second) {
		spec.TTL = model.Duration(time.Duration(received.TTL) * time.Second)
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
	for _, named := range firstNames(rules.Pipelines) {
		if name := model.CleanName(named); exists("Pipeline", name) {
			spec.Pipelines = add(spec.Pipelines, name)
		} else {
			missing = append(missing, fmt.Sprintf("pipeline %.100q", named))
		}
	}
	for _, named := range firstNames(rules.Handlers) {
		name := model.CleanName(named)
		switch _, declared := s.cfg.Handler(namespace, name); {
		case exists("Pipeline", model.SensuPipeline(name)): // made by an import, for a handler of Sensu's events
			spec.Pipelines = add(spec.Pipelines, model.SensuPipeline(name))
		case declared:
			alert.Handlers = add(alert.Handlers, name)
		default:
			missing = append(missing, fmt.Sprintf("handler %.100q", named))
		}
	}
	if alert.Flapping != nil || alert.Handlers != nil {
		spec.Alert = alert
	}
	return spec, missing, err
}

// firstNames returns at most the first 16 names in a list of an event, to limit lookups.
func firstNames(list []string) []string { return list[:min(len(list), 16)] }
