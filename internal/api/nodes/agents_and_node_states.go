package nodes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/api/list"
	"github.com/muster-fleet/muster/internal/api/op"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pipeline/event"
	"github.com/muster-fleet/muster/internal/plan"
	"github.com/muster-fleet/muster/internal/where"
)

// registerAgents registers the API operation that lists agents.
func registerAgents(at nodeOperations) {
	op.Handle(at, op.Get("listAgents", "/api/v1/agents", "nodes", "List agents, oldest version first, then by trouble", model.NotFound), access.NeedOn(access.Read, "Node"), (*nodeRequest).listAgents)
}

// listAgents returns a page of agents, oldest version first. Within a version, agents with the worst problems come
// first; to sort, the server computes the state of every matching agent.
func (s *nodeRequest) listAgents(ctx context.Context, in *v1.AgentFilter) (*op.Body[v1.AgentList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	n, err := list.NewNodeRowFilter(ctx, s.View, list.NodeRows{Selector: in.Selector, Where: in.Where})
	if err != nil {
		return nil, err
	}
	var behind agentSortKey
	if in.After != "" {
		text, err := s.ParsePageToken(in.After)
		if err != nil {
			return nil, err
		}
		if behind, err = parseAgentSortKey(text); err != nil {
			return nil, err
		}
	}
	ids, err := s.findNamedNode(ctx, in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	if ids == nil {
		ids = n.Nodes(s.View, in.Namespace)
	}
	out := v1.AgentList{Items: []v1.Agent{}, Versions: []v1.AgentVersions{}}
	versions := map[string]int{}
	rows := make([]agentSortKey, 0, len(ids))
	summaries := s.Events.Summaries(ids)
	for i, id := range ids {
		a, ok := s.agentStateOf(id, &summaries[i])
		if !ok || in.Version != "" && !hasVersionPrefix(a.version, in.Version) || in.Spooling && !a.spooling || in.Disconnected && !a.disconnected {
			continue
		}
		if matches, err := n.Match(id, func() any { return a.showAgent(s) }); err != nil {
			return nil, err
		} else if !matches {
			continue
		}
		out.Total++
		versions[a.version]++
		if a.disconnected {
			out.Disconnected++
		}
		if a.spooling {
			out.Spooling++
		}
		if in.After == "" || a.compare(behind) > 0 {
			rows = append(rows, a.agentSortKey)
		}
	}
	for version, n := range versions {
		out.Versions = append(out.Versions, v1.AgentVersions{Version: version, Agents: n})
	}
	slices.SortFunc(out.Versions, func(a, b v1.AgentVersions) int { return compareVersions(a.Version, b.Version) })
	slices.SortFunc(rows, agentSortKey.compare)
	if len(rows) > in.Limit {
		rows = rows[:in.Limit]
		out.Next = s.NewPageToken(rows[in.Limit-1].String())
	}
	for _, r := range rows {
		if a, ok := s.agentStateOf(r.id, &s.Events.Summaries([]model.NodeID{r.id})[0]); ok { // false: the node was deleted meanwhile
			out.Items = append(out.Items, a.showAgent(s))
		}
	}
	return op.Answer(out), nil
}

// findNamedNode returns the node with the given name, or nil if the request names no node.
func (s *nodeRequest) findNamedNode(ctx context.Context, namespace, name string) ([]model.NodeID, error) {
	if name == "" {
		return nil, nil
	}
	id, ok := s.Directory.NodeByName(cmp.Or(namespace, model.DefaultNamespaceName), name)
	if !ok {
		return nil, s.NodeNotFoundError(ctx, namespace, name)
	}
	return []model.NodeID{id}, nil
}

// spoolingAfter is the age of the oldest result in the spool above which an agent counts as spooling.
const spoolingAfter = time.Minute

// agentState is the state of one agent with its sort key, computed for the list of agents
type agentState struct {
	agentSortKey
	summary      *event.Summary
	session      v1.AgentSession
	connected    bool
	disconnected bool // the agent should have a session and has none
	spooling     bool
}

// agentStateOf returns the state of a node's agent. If the node never had an agent, ok is false.
func (s *nodeRequest) agentStateOf(id model.NodeID, sum *event.Summary) (a agentState, ok bool) {
	a.summary, a.id = sum, id
	a.session, a.connected = s.Agent(id)
	a.version = a.session.Version
	if !a.connected {
		a.version, _ = s.Directory.Node(id).Facts.Get("agentVersion")
		if a.version == "" && sum.LastHeartbeat == 0 {
			return a, false
		}
	}
	namespace, name, ok := s.Directory.NodeName(id)
	a.name = namespace + "/" + name
	a.disconnected = !a.connected && !sum.Stopped
	switch st := a.session.Stats; {
	case a.disconnected:
		a.trouble = 4
	case st == nil:
	case st.GaveWay+st.Refused+st.Lost > 0:
		a.trouble = 3
		a.spooling = IsSpooling(st)
	case IsSpooling(st):
		a.spooling, a.trouble = true, 2
	case st.Skipped+st.Late > 0:
		a.trouble = 1
	}
	return a, ok
}

// IsSpooling reports whether the agent's spool (its queue on disk) holds results that are older than a minute
func IsSpooling(st *v1.AgentStats) bool { return st.OldestSeconds >= spoolingAfter.Seconds() }

// showAgent converts the state of an agent to the API type Agent. The answer describes each problem of the agent.
func (a *agentState) showAgent(s *nodeRequest) v1.Agent {
	out := v1.Agent{ID: a.id, Version: a.version, Connected: a.connected, Stopped: a.summary.Stopped && !a.connected, LastHeartbeat: view.TimeOfNanoseconds(a.summary.LastHeartbeat)}
	out.Namespace, out.Name, _ = s.Directory.NodeName(a.id)
	if a.disconnected {
		out.Trouble = append(out.Trouble, "not connected")
	}
	if !a.connected {
		return out
	}
	out.Session = &a.session
	st := a.session.Stats
	if st == nil {
		return out
	}
	var spooled uint64
	if a.spooling {
		spooled = st.Spooled
	}
	for _, t := range []struct {
		n    uint64
		text string
	}{
		{st.Lost, "results that its spool could not store"},
		{st.GaveWay, "signals that its spool dropped"},
		{st.Refused, "results that the server refused"},
		{spooled, "signals in the spool, the oldest for " + model.Duration(time.Duration(st.OldestSeconds)*time.Second).String()},
		{st.Skipped, "runs skipped: the run before had not ended"},
		{st.Late, "runs late"},
	} {
		if t.n > 0 {
			out.Trouble = append(out.Trouble, fmt.Sprintf("%d %s", t.n, t.text))
		}
	}
	return out
}

// agentSortKey holds the fields by which the list of agents is sorted, such as the version. Agents are sorted
// by version, severity of their problems, and name.
type agentSortKey struct {
	version string
	trouble int
	name    string // namespace/name
	id      model.NodeID
}

// compare compares two agents by version (oldest first), then by their problems (worst first), then by name.
func (p agentSortKey) compare(o agentSortKey) int {
	return cmp.Or(compareVersions(p.version, o.version), cmp.Compare(o.trouble, p.trouble), cmp.Compare(p.name, o.name))
}

// String returns the sort key as text for page tokens.
func (p agentSortKey) String() string { return fmt.Sprintf("%d %s %s", p.trouble, p.name, p.version) }

// parseAgentSortKey parses the sort key in a page token of the list of agents.
func parseAgentSortKey(text string) (p agentSortKey, err error) {
	trouble, rest, ok := strings.Cut(text, " ")
	p.name, p.version, _ = strings.Cut(rest, " ")
	p.trouble, err = strconv.Atoi(trouble)
	if !ok || err != nil {
		return p, view.BadPageTokenError()
	}
	return p, nil
}

// hasVersionPrefix reports whether a version begins with a version prefix, as 1.2.3 begins with 1.2.
func hasVersionPrefix(version, wanted string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(version, "v"), strings.TrimPrefix(wanted, "v"))
	return ok && (rest == "" || rest[0] == '.')
}

// compareVersions compares the numbers in versions, so that 0.9.1 is older than 0.10.0. Versions without a leading
// number (dev) come after numbered ones, unknown versions last.
func compareVersions(a, b string) int {
	if a == b {
		return 0
	}
	a, b = strings.TrimPrefix(a, "v"), strings.TrimPrefix(b, "v")
	rank := func(v string) int {
		switch {
		case v == "":
			return 2
		case v[0] < '0' || v[0] > '9':
			return 1
		}
		return 0
	}
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	for a != "" && b != "" {
		x, y := countLeadingDigits(a), countLeadingDigits(b)
		if x == 0 || y == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
		if c := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); c != 0 {
			return c
		}
		a, b = a[x:], b[y:]
	}
	return cmp.Compare(len(a), len(b))
}

// countLeadingDigits returns the number of digits at the start of a text.
func countLeadingDigits(text string) int {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	return n
}

// registerNodeStates registers the API operation that lists node states.
func registerNodeStates(at nodeOperations) {
	op.Handle(at, op.Get("listNodeStates", "/api/v1/nodestates", "nodes", "List nodes with their state, worst first", model.NotFound), access.NeedOn(access.Read, "Node"), (*nodeRequest).listNodeStates)
}

// listNodeStates returns a page of node states, worst first. To sort, the server computes the state of every matching
// node.
func (s *nodeRequest) listNodeStates(ctx context.Context, in *v1.NodeFilter) (*op.Body[v1.NodeStateList], error) {
	if err := s.RequireNamespace(ctx, in.Namespace); err != nil {
		return nil, err
	}
	selector, err := directory.ParseSelector(in.Selector)
	if err != nil {
		return nil, err
	}
	ids, err := s.findNamedNode(ctx, in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	switch {
	case ids != nil:
	case in.Selector != "" || in.Group != "":
		ids = s.Directory.NodesMatching(in.Namespace, selector)
	default:
		ids = s.Directory.Nodes(in.Namespace)
	}
	if in.Group != "" {
		if ids, err = s.KeepGroupMembers(ctx, ids, in.Namespace, in.Group); err != nil {
			return nil, err
		}
	}
	if in.Where != "" {
		c, err := where.CompileSearch(in.Where)
		if err != nil {
			return nil, err
		}
		limited, cancel := list.LimitConditionTime(ctx)
		defer cancel()
		match, matching := list.NodeMatcher(limited, s.View, c), ids[:0]
		for _, id := range ids {
			matches, err := match(id)
			if err != nil {
				return nil, err
			}
			if matches {
				matching = append(matching, id)
			}
		}
		ids = matching
	}
	out := v1.NodeStateList{Total: len(ids), Items: []v1.NodeState{}}
	if in.Namespace != "" && in.Name == "" && in.Selector == "" && in.Group == "" && in.Where == "" {
		out.OtherNamespaces = len(s.Directory.Nodes("")) - len(ids)
	}
	type row struct {
		id      model.NodeID
		name    string
		summary event.Summary
	}
	rows := make([]row, 0, len(ids))
	for i, summary := range s.Events.Summaries(ids) {
		namespace, name, _ := s.Directory.NodeName(ids[i])
		rows = append(rows, row{ids[i], namespace + "/" + name, summary})
		if summary.NotOK() > 0 {
			out.Wrong++
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.summary.Severity, a.summary.Severity), cmp.Compare(b.summary.NotOK(), a.summary.NotOK()), cmp.Compare(a.name, b.name))
	})
	for _, r := range rows[:min(in.Limit, len(rows))] {
		out.Items = append(out.Items, s.buildNodeState(r.id, &r.summary, in.Name != ""))
	}
	if in.Name != "" {
		if out.Items[0].Origins, err = s.explainNodeOrigins(ctx, ids[0], &out.Items[0]); err != nil {
			return nil, err
		}
	}
	return op.Answer(out), nil
}

// buildNodeState returns the state of a node with its events, session, groups and labels.
func (s *nodeRequest) buildNodeState(id model.NodeID, sum *event.Summary, withChecks bool) v1.NodeState {
	facts := s.Directory.NodeFacts(id)
	out := v1.NodeState{
		ID: id, Groups: s.Directory.NodeGroups(id), Labels: s.Directory.NodeLabels(id), Agent: facts["agentVersion"],
		OS: describeSystem(facts), Events: v1.ByStatusOf(sum.ByStatus), Problems: sum.Problems, Severity: sum.Severity, SeverityName: sum.Severity.String(),
		Silent: sum.Silent, Stopped: sum.Stopped, LastHeartbeat: view.TimeOfNanoseconds(sum.LastHeartbeat), Connected: s.Connected(id),
	}
	out.Namespace, out.Name, _ = s.Directory.NodeName(id)
	out.Proxy = s.Directory.Node(id).Proxy
	if withChecks {
		add := func(list *[]string, source model.Source) {
			if namespace, name, ok := s.Directory.SourceName(source); ok {
				if namespace != out.Namespace {
					name = namespace + "/" + name
				}
				*list = append(*list, name)
			}
		}
		for _, unit := range s.Directory.NodeUnits(id) {
			add(&out.Checks, model.CheckSource(unit))
			add(&out.Directives, model.DirectiveSource(unit))
		}
		slices.Sort(out.Checks)
		slices.Sort(out.Directives)
	}
	return out
}

// describeSystem formats the operating system and processor of a machine, such as "debian 12 amd64".
func describeSystem(facts map[string]string) string {
	name := cmp.Or(facts["distribution"], facts["os"])
	for _, more := range []string{facts["distributionVersion"], facts["arch"]} {
		if more != "" && name != "" {
			name += " " + more
		}
	}
	return name
}

// ReasonLinks converts the reasons for the assignment of a check to steps of muster why.
func ReasonLinks(list []plan.Explanation) (out []v1.Link) {
	for _, w := range list {
		out = append(out, v1.Link{Holds: w.Lands, Text: w.Text, Steps: ReasonLinks(w.Steps)})
	}
	return out
}

// explainNodeOrigins explains from which declaration or agent each label, group and property of a node comes.
// For the server's own node, which nobody declares, it returns nil.
func (s *nodeRequest) explainNodeOrigins(ctx context.Context, id model.NodeID, n *v1.NodeState) (*v1.NodeOrigins, error) {
	r, err := s.Intent.Get(ctx, intent.Key{Kind: "Node", Namespace: n.Namespace, Name: n.Name})
	if model.ClassOf(err) == model.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := &v1.NodeOrigins{
		Groups: ReasonLinks(s.Directory.ExplainGroups(id)), Properties: []v1.PropertyValue{},
		Labels: labelOrigins(plan.LabelOrigins(r.Metadata, r.Spec.(*model.NodeSpec))),
	}
	for _, c := range s.Directory.JoinRequests(id) {
		out.RequestedGroups = append(out.RequestedGroups, v1.RequestedGroup{Group: c.Group, Accepted: c.Accepted, Reason: c.Reason})
	}
	for _, p := range s.Directory.PropertyOrigins(id) {
		value := v1.PropertyValue{Name: p.Name, Value: p.Value, Conflict: p.Conflict}
		for _, o := range p.From {
			value.From = append(value.From, v1.PropertyOrigin{Level: o.Level, From: o.From, Value: o.Value, Effect: o.Effect})
		}
		out.Properties = append(out.Properties, value)
	}
	out.Limits = nodeLimitUse(s.Limits(n.Namespace), n, s.Events.Summaries([]model.NodeID{id})[0].CountedStates())
	return out, nil
}

// labelOrigins converts labels with their owners to the API type LabelOrigin
func labelOrigins(list []plan.LabelOrigin) []v1.LabelOrigin {
	out := make([]v1.LabelOrigin, 0, len(list))
	for _, l := range list {
		o := v1.LabelOrigin{Name: l.Name, Value: l.Value, Owner: l.Owner}
		for _, h := range l.Hides {
			o.Hides = append(o.Hides, v1.LabelOrigin{Name: h.Name, Value: h.Value, Owner: h.Owner})
		}
		out = append(out, o)
	}
	return out
}

// nodeLimitUse returns the namespace's limits that apply to each single node, with the present use by one node.
func nodeLimitUse(of []v1.LimitUse, n *v1.NodeState, states uint64) (out []v1.LimitUse) {
	for _, l := range of {
		use := v1.LimitUse{Name: l.Name, Limit: l.Limit}
		switch l.Name {
		case "statesPerNode":
			use.Used = &states
		case "labels", "outputBytes", "nodeResultsPerSec", "nodeValuesPerSec", "nodeReportsPerSec", "nodeBytesPerSec", "passivePerNode":
		default:
			continue
		}
		if l.Node == n.Name {
			use.Reached, use.Last, use.Node, use.Reason = l.Reached, l.Last, l.Node, l.Reason
		}
		out = append(out, use)
	}
	return out
}
