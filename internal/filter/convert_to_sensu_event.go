package filter

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/model"
)

// ConversionInput has an event of Muster and all other data for its conversion to a Sensu event.
type ConversionInput struct {
	Event         *model.Event
	ID            string // id of this event
	Entity        Entity
	Check         Check
	Lifecycle     bool   // the node was registered or deregistered: no agent ran the check
	ProcessedBy   string // name of the agent that ran the check
	Runner        []byte // the entity that this agent reported, as JSON; nil: the event's node ran the check
	Sequence      uint64
	Issued        time.Time     // when the run was asked for; zero: when it ran
	Runs          []Run         // the latest runs, oldest first; may be fewer than the event's history
	Silenced      []string      // names of the silences that hold
	Before        *model.Status // status of the former result; nil: the status is taken from the history
	FlappingBegan bool
	FlappingEnded bool
}

// Entity has the fields of an event's node from which its Sensu entity (node description) is made.
type Entity struct {
	Reported    []byte            // the entity that its Sensu agent reported, as JSON; nil: there is none
	Name        string            // as the agent knows it; empty: the node's
	Labels      map[string]string // of operator and agent, without facts
	Annotations map[string]string // declared
	Groups      []string
	Facts       map[string]string
	Proxy       bool // the node is a proxy node
}

// name returns the name that the node has in Sensu, or else its name in Muster
func (n *Entity) name(e *model.Event) string { return cmp.Or(n.Name, e.Node) }

// Check is the definition of an event's check, with the names and labels that a Sensu event shows.
type Check struct {
	*model.CheckDefinition
	DisplayName string // as Sensu names the check; empty: the event's
	Labels      map[string]string
	Annotations map[string]string
	Groups      []string // groups that it targets
	Passive     bool     // no agent runs it
}

// Run is one past run of a check in an event's history, with its time and exit code.
type Run struct{ Executed, Status uint32 } // s since 1970, exit code

// SensuEvent converts an event of Muster to a Sensu event (a JSON object). Handlers and mutators receive this object.
// Times and durations are in seconds. Node and groups are entity and subscriptions.
func SensuEvent(s *ConversionInput) map[string]any {
	e := s.Event
	event := map[string]any{
		"metadata": map[string]any{"namespace": e.Namespace}, "id": s.ID, "timestamp": seconds(e.Received), "sequence": s.Sequence,
		"entity": sensuEntity(s), "pipelines": nil,
	}
	if s.Lifecycle && e.Check == "deregistration" {
		event["metadata"] = map[string]any{} // Sensu gives this event no namespace
	}
	if e.CheckID != model.MetricsCheck { // an event with metrics alone has no check in Sensu
		check := sensuCheck(s, event["entity"].(map[string]any))
		event["check"] = check
		if list := check["pipelines"].([]any); len(list) > 0 {
			event["pipelines"] = list
		}
	}
	if len(e.Values) > 0 {
		event["metrics"] = map[string]any{"handlers": emptyToNil(metricHandlers(s.Check.Pipelines)), "points": SensuPoints(e)}
	}
	return event
}

// ForExpressions returns a Sensu event with additional fields, such as is_incident, for filter expressions.
func ForExpressions(s *ConversionInput, event map[string]any) map[string]any {
	out := maps.Clone(event)
	out["metadata"] = map[string]any{"namespace": s.Event.Namespace, "labels": map[string]string{}, "annotations": map[string]string{}}
	maps.Copy(out, out["metadata"].(map[string]any))
	before, known := statusBefore(s)
	maps.Copy(out, map[string]any{
		"has_check": event["check"] != nil, "has_metrics": event["metrics"] != nil,
		"is_incident": s.Event.Status != model.OK, "is_resolution": known && before != model.OK && s.Event.Status == model.OK,
		"is_silenced": len(s.Silenced) > 0, "is_flapping_start": s.FlappingBegan, "is_flapping_end": s.FlappingEnded,
	})
	return out
}

// defaultRedact lists the keys of labels and annotations whose values Sensu hides by default.
var defaultRedact = []string{"password", "passwd", "pass", "api_key", "api_token", "access_key", "secret_key", "private_key", "secret"}

// redactedPairs returns a copy of labels or annotations, with the values of secret keys replaced. It returns
// nil for an empty map.
func redactedPairs(pairs map[string]string, keys []string) any {
	if len(pairs) == 0 {
		return nil
	}
	out := maps.Clone(pairs)
	for key := range out {
		if slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, key) }) {
			out[key] = model.RedactedValue
		}
	}
	return out
}

// reportedEntity has the fields of an agent's Sensu entity (node description) that Muster evaluates or changes. The
// agent reported the entity, and the server changes it before it passes the entity on.
type reportedEntity struct {
	Name                string // of a removed node
	Subscriptions       []string
	Redact              []string
	Labels, Annotations map[string]string
}

// decodeReported decodes the Sensu entity (node description) that a Sensu agent reported. Without a report the fields
// are empty.
func decodeReported(entity []byte) (reported reportedEntity) {
	_ = json.Unmarshal(entity, &reported) // agents' reports were encoded by the server
	return reported
}

// sensuEntity converts an event's node to a Sensu entity. It takes the entity that the agent reported, with declared
// labels, annotations and groups.
func sensuEntity(s *ConversionInput) map[string]any {
	n := &s.Entity
	var reported reportedEntity
	out := map[string]any{}
	if n.Reported == nil || json.Unmarshal(n.Reported, &out) != nil || json.Unmarshal(n.Reported, &reported) != nil {
		out, reported = plainEntity(n), reportedEntity{}
	}
	name := cmp.Or(reported.Name, n.name(s.Event))
	delete(out, "name")
	delete(out, "labels")
	delete(out, "annotations")
	metadata := sensuMetadata(name, s.Event.Namespace)
	keys := reported.Redact
	if len(keys) == 0 {
		keys = defaultRedact
	}
	for part, pairs := range map[string][2]map[string]string{"labels": {reported.Labels, n.Labels}, "annotations": {reported.Annotations, n.Annotations}} {
		all := maps.Clone(pairs[0])
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, pairs[1])
		if shown := redactedPairs(all, keys); shown != nil {
			metadata[part] = shown
		}
	}
	out["metadata"] = metadata
	subscriptions := slices.Clone(reported.Subscriptions)
	for _, g := range n.Groups {
		if g != "all" && !strings.Contains(g, "/") && !slices.ContainsFunc(subscriptions, func(s string) bool { return model.CleanName(s) == g }) {
			subscriptions = append(subscriptions, g)
		}
	}
	if own := "entity:" + name; !slices.Contains(subscriptions, own) {
		subscriptions = append(subscriptions, own)
	}
	out["subscriptions"] = subscriptions
	out["last_seen"] = int64(0)
	if !n.Proxy {
		out["last_seen"] = seconds(s.Event.Received)
	}
	return out
}

// plainEntity builds a Sensu entity from the facts of a node that has no Sensu agent
func plainEntity(n *Entity) map[string]any {
	system := map[string]any{
		"network": map[string]any{"interfaces": nil}, "libc_type": "", "vm_system": "", "vm_role": "", "cloud_provider": "",
		"processes": nil,
	}
	for field, fact := range model.EntitySystem {
		if n.Facts[fact] != "" {
			system[field] = n.Facts[fact]
		}
	}
	class := "agent"
	if n.Proxy {
		class = "proxy"
	}
	return map[string]any{
		"entity_class": class, "system": system, "deregister": false, "deregistration": map[string]any{},
		"sensu_agent_version": strings.TrimPrefix(n.Facts["agentVersion"], "sensu-agent "),
	}
}

// sensuCheck converts an event's check, with its result, to the JSON object of a Sensu check. entity is the event's
// entity.
func sensuCheck(s *ConversionInput, entity map[string]any) map[string]any {
	e, c := s.Event, &s.Check
	definition := c.CheckDefinition
	if definition == nil {
		definition = &model.CheckDefinition{}
	}
	issued := s.Issued
	if issued.IsZero() {
		issued = e.Executed
	}
	name := cmp.Or(c.DisplayName, e.Check)
	out := sensuCheckConfig(definition, s.subscriptionsOf(s.Check.Groups))
	metadata := sensuMetadata(name, e.Namespace)
	for field, pairs := range map[string]map[string]string{"labels": c.Labels, "annotations": c.Annotations} {
		if definition.Sensu {
			pairs = expandTokens(pairs, func() []byte { return s.tokenEntity(definition, entity) })
		}
		if len(pairs) > 0 {
			metadata[field] = pairs
		}
	}
	history := sensuHistory(s)
	status := uint32(e.Status)
	if n := len(s.Runs); n > 0 {
		status = s.Runs[n-1].Status
	}
	executed, processedBy := sensuExecuted(e), s.ProcessedBy
	switch {
	case s.Lifecycle, e.Expired && e.CheckID != model.KeepaliveCheck:
		processedBy = ""
	case processedBy == "": // the node was removed
		processedBy = decodeReported(s.Entity.Reported).Name
	}
	maps.Copy(out, map[string]any{
		"metadata": metadata, "status": status, "output": e.Output, "state": e.State, "history": history,
		"occurrences": e.Occurrences, "occurrences_watermark": e.Watermark, "total_state_change": e.Change,
		"issued": seconds(issued), "executed": executed, "last_ok": seconds(e.LastOK), "is_silenced": len(s.Silenced) > 0,
	})
	if definition.Proxy {
		out["proxy_entity_name"] = s.Entity.name(e)
	}
	setNonZero(out, "duration", time.Duration(e.Duration).Seconds())
	setNonZero(out, "processed_by", processedBy)
	setNonEmpty(out, "silenced", s.Silenced)
	setNonEmpty(out, "hooks", SensuHooks(e, definition))
	switch {
	case e.CheckID == model.KeepaliveCheck:
		out["scheduler"], out["publish"] = "etcd", false
	case c.Passive:
		out["scheduler"], out["publish"] = "", false
	}
	if e.CheckID == model.KeepaliveCheck {
		delete(out, "command")
	}
	if s.Lifecycle {
		maps.Copy(out, map[string]any{"publish": false, "scheduler": "", "issued": 0, "executed": 0, "history": nil, "occurrences": 0, "occurrences_watermark": 0})
		delete(out, "state")
	}
	return out
}

// expandTokens replaces Sensu's tokens, such as {{ .name }}, in a check's labels or annotations by node values.
// A text with a token that has no value, or a redacted one, stays as declared.
func expandTokens(pairs map[string]string, entity func() []byte) map[string]string {
	expanded := maps.Clone(pairs)
	for key, text := range pairs {
		if !strings.Contains(text, "{{") {
			continue
		}
		template, err := model.ParseSensuTemplate(text)
		if err != nil {
			continue
		}
		if value, err := template.Expand(func(name string) ([]byte, string, bool) { return entity(), "", name == model.EntityProperty }); err == nil {
			expanded[key] = value
		}
	}
	return expanded
}

// tokenEntity returns the JSON of the Sensu entity from which tokens in a check get their values. It is the
// event's entity, or the agent's for a check with proxy_entity_name.
func (s *ConversionInput) tokenEntity(definition *model.CheckDefinition, entity map[string]any) []byte {
	flat := maps.Clone(entity)
	if definition.OwnEntity && s.Runner != nil && json.Unmarshal(s.Runner, &flat) == nil {
		flat["name"], flat["namespace"] = s.ProcessedBy, s.Event.Namespace
	} else if metadata, ok := entity["metadata"].(map[string]any); ok {
		maps.Copy(flat, metadata)
	}
	encoded, err := json.Marshal(flat)
	if err != nil {
		panic("BUG: encode an entity: " + err.Error()) // it was decoded from JSON, or has texts only
	}
	return encoded
}

// subscriptionsOf converts a node's groups to the subscriptions of a Sensu agent. It restores the upper and lower case
// that the agent reported.
func (s *ConversionInput) subscriptionsOf(groups []string) (list []string) {
	runner := s.Runner
	if runner == nil {
		runner = s.Entity.Reported
	}
	reported := decodeReported(runner) // without a report the groups keep their names
	for _, g := range groups {
		if i := slices.IndexFunc(reported.Subscriptions, func(s string) bool { return model.CleanName(s) == g }); i >= 0 {
			g = reported.Subscriptions[i]
		}
		list = append(list, g)
	}
	return list
}

// sensuCheckConfig converts the definition of a check to the JSON object of Sensu's CheckConfig
func sensuCheckConfig(c *model.CheckDefinition, groups []string) map[string]any {
	var handlers, pipelines []string
	for _, name := range c.Pipelines {
		name = name[strings.IndexByte(name, '/')+1:]
		switch handler, of := strings.CutPrefix(name, model.SensuPipeline("")); {
		case !of:
			pipelines = append(pipelines, name)
		case !strings.HasSuffix(handler, metricsSuffix):
			handlers = append(handlers, handler)
		}
	}
	references := []any{}
	for _, name := range pipelines {
		references = append(references, map[string]any{"name": name, "type": "Pipeline", "api_version": "core/v2"})
	}
	out := map[string]any{
		"handlers": nilToEmpty(append(handlers, c.Handlers...)), "pipelines": references, "subscriptions": nilToEmpty(groups), "publish": true, "round_robin": c.RoundRobin,
		"interval": wholeSeconds(c.Interval), "ttl": wholeSeconds(c.TTL), "timeout": wholeSeconds(c.Timeout), "stdin": c.StdinEvent, "subdue": nil,
		"high_flap_threshold": c.FlapStart, "low_flap_threshold": c.FlapEnd, "proxy_entity_name": "", "scheduler": "memory",
		"output_metric_format": "", "output_metric_handlers": emptyToNil(metricHandlers(c.Pipelines)), "env_vars": emptyToNil(environment(c.Env)),
		"runtime_assets": emptyToNil(assetNames(c)), "secrets": emptyToNil(sensuSecrets(c)), "check_hooks": emptyToNil(sensuHookLists(c)),
	}
	switch {
	case c.RoundRobin:
		out["scheduler"] = "etcd"
	case c.Proxy && !c.OwnEntity:
		out["scheduler"] = "" // requests for the proxy entities of a condition have none
	}
	if c.Command != nil {
		command := c.Command.Shell
		if c.Command.Argv != nil {
			command = strings.Join(c.Command.Argv, " ")
		}
		setNonZero(out, "command", command)
	}
	if c.Cron != "" {
		cron := c.Cron
		if c.TimeZone != "" && c.TimeZone != "UTC" {
			cron = "CRON_TZ=" + c.TimeZone + " " + cron
		}
		out["cron"] = cron
	}
	if c.MaxOutput != model.DefaultOutputBytes {
		setNonZero(out, "max_output_size", c.MaxOutput)
	}
	setNonZero(out, "discard_output", c.DiscardOutput)
	if m := c.Metrics; m != nil {
		out["output_metric_format"] = model.SensuMetricFormat(m.Format)
		setNonEmpty(out, "output_metric_tags", SensuTags(m.Tags))
	}
	setNonEmpty(out, "output_metric_thresholds", SensuThresholds(c.Thresholds))
	return out
}

// metricsSuffix ends the names of pipelines that the import makes for Sensu's metric handlers.
const metricsSuffix = "-metrics"

// metricHandlers returns the handlers to which Sensu would send an event's metrics, found by the names of
// pipelines.
func metricHandlers(pipelines []string) (list []string) {
	for _, name := range pipelines {
		if handler, ok := strings.CutPrefix(name, model.SensuPipeline("")); ok && strings.HasSuffix(handler, metricsSuffix) {
			list = append(list, strings.TrimSuffix(handler, metricsSuffix))
		}
	}
	return list
}

// environment formats environment variables as Sensu does, as a sorted list of NAME=VALUE.
func environment(env map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// assetNames returns the names of the assets of a check, except assets that only its hooks use.
func assetNames(c *model.CheckDefinition) (list []string) {
	for _, a := range c.Assets {
		if !a.HooksOnly {
			list = append(list, a.Name)
		}
	}
	return list
}

// sensuSecrets returns the names of a check's secrets in Sensu's form, without their values.
func sensuSecrets(c *model.CheckDefinition) (list []any) {
	for _, s := range c.Secrets {
		_, name := model.SplitRef("", s.Name)
		list = append(list, map[string]any{"name": s.Env, "secret": name})
	}
	return list
}

// sensuHookLists returns a check's hooks as Sensu's lists by result type, such as critical or non-zero
func sensuHookLists(c *model.CheckDefinition) (lists []any) {
	byType := map[string][]string{}
	var types []string
	for i := range c.Hooks {
		for _, when := range c.Hooks[i].When {
			if when = strings.ToLower(when); when == "non-ok" {
				when = "non-zero"
			}
			if byType[when] == nil {
				types = append(types, when)
			}
			byType[when] = append(byType[when], c.Hooks[i].Title())
		}
	}
	for _, when := range types {
		lists = append(lists, map[string]any{when: byType[when]})
	}
	return lists
}

// SensuThresholds converts the thresholds of a check to Sensu's JSON format.
func SensuThresholds(thresholds []model.Threshold) (list []any) {
	for i := range thresholds {
		t := &thresholds[i]
		rules := []any{}
		for status, bounds := range []*model.Bounds{1: t.Warning, 2: t.Critical, 3: t.Unknown} {
			if bounds != nil {
				rules = append(rules, map[string]any{"min": bounds.MinText(), "max": bounds.MaxText(), "status": status})
			}
		}
		missing, _ := model.ParseStatus(t.Missing)
		list = append(list, map[string]any{"name": t.Metric, "tags": emptyToNil(SensuTags(t.Tags)), "thresholds": rules, "null_status": int(missing)})
	}
	return list
}

// SensuTags converts metric tags to Sensu's JSON format.
func SensuTags(tags map[string]string) (list []any) {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, map[string]any{"name": name, "value": tags[name]})
	}
	return list
}

// sensuHistory converts the past results of an event to Sensu's JSON format. Entries without a recorded run have no
// time.
func sensuHistory(s *ConversionInput) []any {
	history := make([]any, len(s.Event.History))
	unrecorded := len(history) - len(s.Runs)
	for i, status := range s.Event.History {
		run := Run{Status: uint32(status)}
		if i >= unrecorded {
			run = s.Runs[i-unrecorded]
		}
		history[i] = map[string]any{"status": run.Status, "executed": run.Executed}
	}
	if n := len(history); n > 0 {
		history[n-1].(map[string]any)["executed"] = sensuExecuted(s.Event)
	}
	return history
}

// sensuExecuted returns the time at which the check ran, for the field executed of a Sensu event. For an expired TTL
// it is the time of expiry.
func sensuExecuted(e *model.Event) int64 {
	if e.Expired {
		return seconds(e.Received)
	}
	return seconds(e.Executed)
}

// statusBefore returns the status before the event's last result. ok is false if that status is unknown.
func statusBefore(s *ConversionInput) (model.Status, bool) {
	if s.Before != nil {
		return *s.Before, true
	}
	if n := len(s.Event.History); n > 1 {
		return s.Event.History[n-2], true
	}
	return model.OK, false
}

// sensuMetadata returns a name and a namespace as the metadata object of a Sensu resource.
func sensuMetadata(name, namespace string) map[string]any {
	return map[string]any{"name": name, "namespace": namespace}
}

// SensuPoints converts the measured values of an event to Sensu's metric points.
func SensuPoints(e *model.Event) []any {
	points := make([]any, len(e.Values))
	for i, v := range e.Values {
		at := v.At
		if at.IsZero() {
			at = e.Executed
		}
		points[i] = map[string]any{"name": v.Name, "value": v.Value, "timestamp": seconds(at), "tags": emptyToNil(SensuTags(v.Tags))}
	}
	return points
}

// SensuHooks converts the results of hooks (commands after a check) to Sensu's form, with the hooks'
// definitions. An output ends with a line end, as nearly all commands write one.
func SensuHooks(e *model.Event, c *model.CheckDefinition) (list []any) {
	for _, h := range e.Hooks {
		output, code := h.Output, h.ExitCode
		if code == 0 {
			code = uint32(h.Status)
		}
		if output == "(no output)" {
			output = ""
		}
		if output != "" && h.Cut == 0 {
			output += "\n"
		}
		hook := map[string]any{
			"metadata": sensuMetadata(h.Name, e.Namespace), "command": "", "timeout": 0, "stdin": false, "runtime_assets": nil,
			"duration": time.Duration(h.Duration).Seconds(), "executed": seconds(e.Executed), "issued": 0, "output": output, "status": code,
		}
		if i := slices.IndexFunc(c.Hooks, func(of model.Hook) bool { return of.Title() == h.Name }); i >= 0 {
			of := &c.Hooks[i]
			hook["timeout"], hook["stdin"] = wholeSeconds(time.Duration(of.Timeout)), of.Stdin
			if of.Command != nil {
				hook["command"] = of.Command.Shell
			}
		}
		list = append(list, hook)
	}
	return list
}

// seconds converts a time to seconds since 1970, as Sensu's JSON has times. The zero time gives 0.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// wholeSeconds converts a duration to whole seconds, as Sensu's JSON has durations.
func wholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }

// setNonZero sets a field of a JSON object unless the value is zero, because Sensu omits such fields.
func setNonZero[T comparable](out map[string]any, name string, value T) {
	if value != *new(T) {
		out[name] = value
	}
}

// setNonEmpty sets a list in a JSON object, unless the list is empty, because Sensu omits empty lists. Sensu
// omits empty lists.
func setNonEmpty[T any](out map[string]any, name string, list []T) {
	if len(list) > 0 {
		out[name] = list
	}
}

// emptyToNil replaces an empty list by nil, which becomes null in JSON as in Sensu.
func emptyToNil[T any](list []T) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

// nilToEmpty replaces a nil list by an empty list, which becomes [] in JSON as in Sensu.
func nilToEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
