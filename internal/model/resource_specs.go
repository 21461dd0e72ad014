package model

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"
)

// APIVersion is the one version of resources so far.
const APIVersion = "muster/v1"

// Resource is one declared resource with its kind, metadata and spec.
//
// The comments of its fields, and of all types below, are the text of muster explain and of the reference page.
type Resource struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   Metadata        `json:"metadata"`
	Spec       Spec            `json:"spec"`
	Status     *ResourceStatus `json:"status,omitempty"` // set by the server; ignored by apply
}

// Spec is the spec of a resource, such as *NodeSpec or *CheckSpec, depending on the kind.
type Spec interface{ Kind() string }

// Metadata has the fields of all kinds of resources, such as name, namespace, labels, annotations and owner.
type Metadata struct {
	// Its name: lower-case letters, digits, and . _ - between them, at most 253. Unique within its kind and
	// namespace.
	Name string `json:"name"`
	// The namespace it lives in; default "default". A Namespace is in none.
	Namespace string `json:"namespace,omitempty"`
	// One line of text to show to people.
	DisplayName string `json:"displayName,omitempty"`
	// Short facts to select by. On a node these are the operator's; they win over the agent's labels and facts.
	Labels map[string]string `json:"labels,omitempty"`
	// Notes that nothing selects by.
	Annotations map[string]string `json:"annotations,omitempty"`
	// The owner: a person, a repository. apply --owner writes it, and --prune deletes by it. Applying a resource
	// of another owner is refused.
	Owner string `json:"owner,omitempty"`
}

// ResourceStatus has the fields of a resource that the server sets, such as id and revision.
type ResourceStatus struct {
	ID       uint32    `json:"id"`       // numeric, never used again
	Revision int64     `json:"revision"` // of the last change; the ETag
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

// Targets selects nodes by group, by name and by a CEL condition (where), minus the exceptions (except). The same in
// every kind.
type Targets struct {
	// Groups of the same namespace, or shared/NAME. Every namespace is created with the group "all" of its nodes;
	// shared/all has every node.
	Groups []string `json:"groups,omitempty" ref:"Group,optional"`
	// Nodes by name.
	Nodes []string `json:"nodes,omitempty" ref:"Node,optional"`
	// A CEL condition over node.name, node.labels, node.facts and node.groups:
	// node.labels.env == "prod" && node.facts.os == "linux".
	Where string `json:"where,omitempty"`
	// Nodes to leave out, selected in the same way.
	Except *Targets `json:"except,omitempty"`
}

// NamespaceSpec is a namespace with its limits.
type NamespaceSpec struct {
	// Its limits; the server's defaults fill in the rest.
	Limits *Limits `json:"limits,omitempty"`
	// Handlers of problems on its nodes that name none themselves: of silent nodes (keepalive) and of checks
	// without alert.handlers. Of this namespace, or shared/NAME.
	Handlers []string `json:"handlers,omitempty" ref:"Handler"`
	// An IANA time zone such as Europe/Paris, for windows and mutes without a zone; default UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// send (default): problems on its nodes notify. shadow: everything is computed and recorded, and nothing is
	// sent. A problem that opens in shadow stays in shadow to its end.
	Notifications string `json:"notifications,omitempty"`
	// Addresses and networks from which zabbix_sender and Zabbix's agents may send values of its nodes: [10.0.0.0/24].
	// Default: none; the server refuses them.
	ZabbixFrom []string `json:"zabbixFrom,omitempty"`
	// optional (default): they may send with and without TLS, as any host. certificate: only by TLS, with a certificate of
	// --zabbix-client-ca whose common name, or one of whose DNS names, is the host.
	ZabbixTLS string `json:"zabbixTLS,omitempty"`
	// Addresses and networks from which Rudder's agents and relays may send inventories and runs of its nodes: [10.0.0.0/24]. An agent
	// that is new gets a node. Default: none; the server refuses them.
	RudderFrom []string `json:"rudderFrom,omitempty"`
	// The compliance mode of these agents. full (default): a component without a report is missing. changes-only: it is compliant, if
	// the run has come to its end.
	RudderReports string `json:"rudderReports,omitempty"`
	// The mode of directives on its nodes.
	PolicyMode *NamespacePolicyMode `json:"policyMode,omitempty"`
}

// ZabbixCertificate is the value of ZabbixTLS for a namespace that requires certificates of Zabbix's senders and agents.
const ZabbixCertificate = "certificate"

// RudderChangesOnly is the compliance mode of Rudder's agents that report changes and faults alone.
const RudderChangesOnly = "changes-only"

// NamespacePolicyMode says whether directives change the nodes of a namespace (enforce) or only report differences
// (audit).
type NamespacePolicyMode struct {
	// audit (default) or enforce: the mode of directives and nodes that give none.
	Mode string `json:"mode,omitempty"`
	// No node and no directive has another mode.
	Fixed bool `json:"fixed,omitempty"`
}

// NotificationsShadow is the value of Notifications for a namespace that sends nothing.
const NotificationsShadow = "shadow"

// Limits has the upper limits of a namespace, of which some apply to each node. Anything beyond is refused,
// counted and reported, without effect on other namespaces.
type Limits struct {
	// Event states of the whole namespace.
	States int `json:"states,omitempty"`
	// Event states of one node; default 1000.
	StatesPerNode int `json:"statesPerNode,omitempty"`
	// Machines that have joined, with a token or as agents of Sensu. Another machine is refused, unless its node
	// is declared or it replaces the machine of a node.
	Nodes int `json:"nodes,omitempty"`
	// Labels of one node.
	Labels int `json:"labels,omitempty"`
	// Bytes of one result's output.
	OutputBytes int `json:"outputBytes,omitempty"`
	// Results per second of all nodes together.
	ResultsPerSec float64 `json:"resultsPerSec,omitempty"`
	// Results per second of one node.
	NodeResultsSec float64 `json:"nodeResultsPerSec,omitempty"`
	// Items that discovery rules make on all nodes together; default 1000000. Above, new entities have no items, and their rules
	// are unsupported.
	DiscoveredItems int `json:"discoveredItems,omitempty"`
	// Series of numbers of all nodes together; default 2000000. Above, new series get no values, and their items are unsupported.
	Series int `json:"series,omitempty"`
	// Values of items of all nodes, metric points of Sensu and samples of remote write per second, together.
	ValuesPerSec float64 `json:"valuesPerSec,omitempty"`
	// Values of items per second of one node; default ten for each of nodeResultsPerSec.
	NodeValuesPerSec float64 `json:"nodeValuesPerSec,omitempty"`
	// Reports of directives and changes of inventories per second of all nodes together.
	ReportsPerSec float64 `json:"reportsPerSec,omitempty"`
	// Reports of directives and changes of inventories per second of one node.
	NodeReportsPerSec float64 `json:"nodeReportsPerSec,omitempty"`
	// Bytes per second of what all nodes and senders of alerts send, together.
	BytesPerSec float64 `json:"bytesPerSec,omitempty"`
	// Bytes per second of what one node, or one sender of alerts, sends; default 1 MiB.
	NodeBytesPerSec float64 `json:"nodeBytesPerSec,omitempty"`
	// Passive checks that unsolicited events of one node's Sensu agent may create, where no Check has their name;
	// default none: such an event is refused.
	PassivePerNode int `json:"passivePerNode,omitempty"`
}

// NodeSpec is the spec of a node, a machine with an agent or a thing without an agent. The id never changes,
// the name may.
type NodeSpec struct {
	// A thing without an agent: a switch, a printer, a web site. Checks with proxy report about it; no machine can
	// become it, and it has no keepalive.
	Proxy bool `json:"proxy,omitempty"`
	// The immutable id, a UUID given at enrolment. A node without one waits for its machine.
	UID string `json:"uid,omitempty"`
	// More groups of this node, of the same namespace or shared/NAME, in addition to groups that list or match it.
	Groups []string `json:"groups,omitempty" ref:"Group,optional"`
	// More groups that the agent may join by itself, in addition to groups with selfJoin and granted ones.
	MayJoin []string `json:"mayJoin,omitempty"`
	// Values for {{ .props.NAME }} on this node; they win over all others.
	Properties map[string]json.RawMessage `json:"properties,omitempty"`
	// The mode of directives on it. audit: none enforces. enforce: those without a mode enforce. Default: of the namespace.
	PolicyMode string `json:"policyMode,omitempty"`
	// The stage of its life. On a node with empty-policies or ignored no directive runs, and it has no compliance; checks run. The
	// others are initializing, enabled (default) and preparing-eol.
	State string `json:"state,omitempty"`
	// The switch or router between it and everything else: while that is down, problems of this node notify nobody.
	Upstream *Upstream `json:"dependsOn,omitempty"`
	// How often the agent must be heard, and the receivers of its keepalive.
	Keepalive *Keepalive `json:"keepalive,omitempty"`
	// Whether it is removed after a long absence; default: it stays and counts as missing.
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
	// The agent of Zabbix on it. The server polls the agent for the items of the node (passive checks).
	ZabbixAgent *ZabbixAgent `json:"zabbixAgent,omitempty"`
	// SHA-256 of its machine's public key; shown, not declared. A machine with another key is not this node.
	Key string `json:"key,omitempty"`
	// Grants of its join token, in addition to the declared fields. Left out, it stays; {} removes it.
	JoinGrant *JoinGrant `json:"joinGrant,omitempty" ref:"-"`
	// Measured by the agent; shown, not declared.
	Facts map[string]string `json:"facts,omitempty"`
	// The receivers of its keepalive that its Sensu agent names; shown, not declared. They count where keepalive
	// names none, as far as they exist.
	AgentReceivers *KeepaliveReceivers `json:"agentHears,omitempty"`
	// The entity of its Sensu agent, in Sensu's JSON, for handlers that read Sensu's events; shown, not declared. Values
	// that the agent redacts are left out.
	AgentEntity json.RawMessage `json:"agentEntity,omitempty"`
	// From the agent's configuration; shown, not declared.
	AgentLabels map[string]string `json:"agentLabels,omitempty"`
	// Groups that the agent asks for (its --groups); shown, not declared. It is in those with selfJoin and those
	// of mayJoin.
	AgentGroups []string `json:"agentGroups,omitempty"`
}

// ZabbixAgent is an agent of Zabbix that answers requests of its server. Its configuration names this server in Server=.
type ZabbixAgent struct {
	// Its address: HOST or HOST:PORT; default port 10050.
	Address string `json:"address"`
	// Time that it may take for one item, 1s to 30s; default 3s. Agents before Zabbix 7.0 use the Timeout= of their own.
	Timeout Duration `json:"timeout,omitempty"`
}

// Stages in the life of a node (NodeSpec.State), with Rudder's names.
const (
	StateInitializing  = "initializing"
	StateEnabled       = "enabled"
	StateEmptyPolicies = "empty-policies"
	StateIgnored       = "ignored"
	StatePreparingEOL  = "preparing-eol"
)

// RunsDirectives reports whether directives may run on the node, which the states ignored and empty-policies
// forbid.
func (s *NodeSpec) RunsDirectives() bool {
	return s.State != StateEmptyPolicies && s.State != StateIgnored
}

// Upstream names the node, such as a router, through which another node is reached. It has the check that shows
// whether it is down.
type Upstream struct {
	// Its name, of the same namespace or shared/NAME.
	Node string `json:"node" ref:"Node,chain"`
	// Its check, of the same namespace or shared/NAME: a critical or unknown problem of it means down. Default
	// keepalive, which a proxy node does not have.
	Check string `json:"check,omitempty" ref:"Check"`
}

// CheckName returns the name of the check that decides whether the upstream node is down.
func (b *Upstream) CheckName() string { return cmp.Or(b.Check, KeepaliveCheckName) }

// JoinGrant records the groups, labels and lifecycle that a node got from a join token or an operator.
type JoinGrant struct {
	// Id of the join token; empty: an operator accepted the machine.
	Token string `json:"token,omitempty"`
	// Groups of the node; its agent may also join them by itself.
	Groups []string `json:"groups,omitempty"`
	// Labels; metadata.labels win.
	Labels map[string]string `json:"labels,omitempty"`
	// Its lifecycle, if lifecycle is left out.
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
}

// Lifecycle configures how long an ephemeral node may be absent before the server removes the node.
type Lifecycle struct {
	// Removes the node after a long absence of its machine.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// The absence, without a session, after which it is removed; default 1h.
	ForgetAfter Duration `json:"forgetAfter,omitempty"`
	// Handlers to notify once of the removal: of the same namespace, or shared/NAME.
	Handlers []string `json:"handlers,omitempty" ref:"Handler"`
}

// Keepalive configures how often a node's agent must report, and whom to notify of its silence.
type Keepalive struct {
	// How often the agent sends a keepalive; default 20s.
	Interval Duration `json:"interval,omitempty"`
	// The silence after which the keepalive event turns warning; default never. Shorter than timeout.
	Warning Duration `json:"warning,omitempty"`
	// The silence after which the keepalive event turns critical; default 120s.
	Timeout Duration `json:"timeout,omitempty"`
	// Handlers to notify of its silence and return: of the same namespace, or shared/NAME. Default: routes and the
	// namespace's handlers, as for any problem.
	Handlers []string `json:"handlers,omitempty" ref:"Handler"`
	// Kept from Sensu: Pipelines that get each of its keepalives and, in silence, repetitions, of the same namespace or shared/NAME.
	// Without handlers, matching routes are notified, too.
	Pipelines []string `json:"pipelines,omitempty" ref:"Pipeline"`
}

// KeepaliveReceivers has the handlers and pipelines, named by the agent, to notify of the node's silence.
type KeepaliveReceivers struct {
	// Handlers of the node's namespace.
	Handlers []string `json:"handlers,omitempty"`
	// Pipelines of the node's namespace.
	Pipelines []string `json:"pipelines,omitempty"`
}

// GroupSpec is a named set of nodes. It is the union of listed nodes, of other groups, and of the nodes that match a
// condition.
type GroupSpec struct {
	// Nodes by name.
	Nodes []string `json:"nodes,omitempty" ref:"Node,optional"`
	// Other groups, of the same namespace or shared/NAME.
	Groups []string `json:"groups,omitempty" ref:"Group,optional,chain"`
	// A CEL condition over node.name, node.labels and node.facts; true matches all.
	Where string `json:"where,omitempty"`
	// Allows agents to join the group by themselves.
	SelfJoin bool `json:"selfJoin,omitempty"`
	// Guarantees that no machine brings itself in: the group consists of lists, of groups that operators and join
	// tokens assign, of a condition over their labels, and of other trusted groups. Secrets and policies require it.
	Trusted bool `json:"trusted,omitempty"`
	// A change of a directive that runs on one of its nodes reaches no node until another person approves it: muster rollout approve.
	// Other changes of its nodes' policies, of its members and of review itself wait until another person repeats the command.
	Review bool `json:"review,omitempty"`
	// Values for {{ .props.NAME }} on its nodes. If two groups disagree, the nodes in both, and only those, have
	// an error.
	Properties map[string]json.RawMessage `json:"properties,omitempty"`
}

// PropertySpec sets the value of a property at one level, such as global, namespace, group or node. The narrowest
// level wins. Every reader sees it, so it must not hold a secret.
type PropertySpec struct {
	// The NAME in {{ .props.NAME }}; default metadata.name.
	Property string `json:"property,omitempty"`
	// Its level: global, namespace (default), group:NAME or node:NAME.
	Scope string `json:"scope,omitempty"`
	// Any value. Mappings of several levels are merged, and dots reach into them.
	Value json.RawMessage `json:"value"`
	// How values of narrower levels change this one. The widest level with a value decides.
	Merge PropertyMerge `json:"merge,omitzero"`
}

// PropertyMerge says how a property's value on one node combines with the value for all nodes.
type PropertyMerge struct {
	// merge (default): member by member; override: the narrower one replaces it.
	Objects string `json:"objects,omitempty"`
	// override (default), append: the elements of the narrower one come last; prepend: they come first.
	Lists string `json:"lists,omitempty"`
	// override (default), append: the text of the narrower one comes last; prepend: it comes first.
	Texts string `json:"texts,omitempty"`
}

// Words of PropertyMerge.
const (
	MergeMembers  = "merge"
	MergeOverride = "override"
	MergeAppend   = "append"
	MergePrepend  = "prepend"
)

// CheckSpec has more than 25 fields because users write it by hand, as one flat mapping.

// CheckSpec is a command or probe that runs on nodes, with rules for events from its results. It has exactly one of
// command, probe and passive; with command or probe exactly one of interval and cron. Every text of command, probe,
// env, stdin, runAs and hooks may hold {{ .props.NAME | default "…" }}.
type CheckSpec struct {
	// The nodes it runs on; default none.
	Targets *Targets `json:"targets,omitempty"`
	// Proxy nodes to report about, selected like targets. Each node of targets runs the check once for each of
	// them, with the proxy node's properties, and the event belongs to the proxy node.
	Proxy *Targets `json:"proxy,omitempty"`
	// The nodes of targets take turns: each run is given to one of them. With proxy, each proxy node is checked
	// once per interval, or at each time of cron, which needs timeZone.
	RoundRobin bool `json:"roundRobin,omitempty"`
	// A text is run by the shell, a list without one. Exit codes and output follow the conventions of Nagios
	// plug-ins.
	Command *Command `json:"command,omitempty"`
	// A probe that is built into the agent and needs no package on the node.
	Probe *Probe `json:"probe,omitempty"`
	// No agent runs it. Its results come from outside, such as alerts of a Prometheus or events that a program hands
	// to its Sensu agent. It may set only alert, runbook, severity, ttl, maxOutput, dependsOn, pipelines and disabled.
	Passive bool `json:"passive,omitempty"`
	// How often it runs. Each node has a fixed offset of its own within the interval.
	Interval Duration `json:"interval,omitempty"`
	// The times it runs at: minute, hour, day of month, month, day of week.
	Cron string `json:"cron,omitempty"`
	// The IANA time zone of cron; default the node's.
	TimeZone string `json:"timeZone,omitempty"`
	// Times without runs.
	Schedule *Schedule `json:"schedule,omitempty"`
	// After this time the run and all its processes are ended; default the interval, at most 60s.
	Timeout Duration `json:"timeout,omitempty"`
	// The longest time between two results, longer than the interval. After it the event fails, unless the whole
	// node is silent.
	TTL Duration `json:"ttl,omitempty"`
	// Environment of the command.
	Env map[string]string `json:"env,omitempty"`
	// Secret values in variables of the command's environment; its output shows none of them. If one cannot be
	// read, the result is UNKNOWN.
	Secrets []CommandSecret `json:"secrets,omitempty"`
	// Text for the command's standard input; default empty.
	Stdin string `json:"stdin,omitempty"`
	// The command gets the last event on its standard input, as JSON, instead of a text: kept from Sensu (stdin: true).
	StdinEvent bool `json:"stdinEvent,omitempty"`
	// Assets of the command and the hooks, of the same namespace or shared/NAME. Their programs come first in PATH.
	Assets []string `json:"assets,omitempty" ref:"Asset"`
	// The user the command runs as; default the agent's.
	RunAs string `json:"runAs,omitempty"`
	// The kept bytes of output; a cut is marked. Default 64KiB, at most 1MiB.
	MaxOutput Size `json:"maxOutput,omitempty"`
	// Drops the output after numbers were parsed and hooks have read it: it is neither sent nor kept. Messages of
	// the agent itself about the run stay.
	DiscardOutput bool `json:"discardOutput,omitempty"`
	// Commands that run on the node after a result, by its status, to collect the first facts for a person. Their
	// output stands with the event and in messages.
	Hooks []Hook `json:"hooks,omitempty"`
	// How numbers are parsed from the output. Without this field the performance data of Nagios become series, but are
	// not part of the event.
	Metrics *Metrics `json:"metrics,omitempty"`
	// Bounds for parsed numbers. A number beyond raises the status.
	Thresholds []Threshold `json:"thresholds,omitempty"`
	// When a problem opens and closes, and the receivers of its notifications.
	Alert *Alert `json:"alert,omitempty"`
	// The link to the page with the steps to take when it fails. It stands in every message, beside
	// metadata.displayName.
	Runbook string `json:"runbook,omitempty"`
	// Checks on the same node that this one needs, of the same namespace or shared/NAME: while one of them has a
	// critical or unknown problem, problems of this check notify nobody.
	DependsOn []string `json:"dependsOn,omitempty" ref:"Check,chain"`
	// Kept from Sensu: Pipelines that get every event of this check, of the same namespace or shared/NAME. If
	// alert names no route or handler, matching routes are notified, too.
	Pipelines []string `json:"pipelines,omitempty" ref:"Pipeline"`
	// Severities by status, where they differ from the usual ones: {critical: disaster}. Usual are warning →
	// warning, critical → high, unknown → average.
	Severity map[string]string `json:"severity,omitempty"`
	// Kept from Sensu: {{ }} in its texts are Sensu's tokens over the entity, values are not quoted for the shell, and no
	// timeout means none.
	Sensu bool `json:"sensu,omitempty"`
	// It runs nowhere while this is true. Results of a disabled passive check are refused.
	Disabled bool `json:"disabled,omitempty"`
}

// Schedule restricts the times at which a check runs.
type Schedule struct {
	// Times without runs; the TTL stands still meanwhile.
	Except []ScheduleException `json:"except,omitempty"`
}

// ScheduleException is a calendar of times at which a check does not run. It has exactly one of during and window.
type ScheduleException struct {
	// "22:00-07:00 Europe/Paris", "sat,sun". The zone is by default the namespace's, else UTC.
	During string `json:"during,omitempty"`
	// A Window, of the same namespace or shared/NAME.
	Window string `json:"window,omitempty" ref:"Window"`
}

// Command is a shell line or, as a list, a program with its arguments.
type Command struct {
	Shell string
	Argv  []string
}

// Probe selects a probe of the agent and its arguments.
type Probe struct {
	// Its name: disk, memory, load, tcp, http, …
	Name string `json:"name"`
	// Its arguments, always text: {warn: "20%"}.
	Args map[string]string `json:"args,omitempty"`
}

// Hook is a command that a check runs after a result.
type Hook struct {
	// The title of its output; with hook, default that name.
	Name string `json:"name,omitempty"`
	// Results that start it: ok, warning, critical, unknown, non-ok, or an exit code of the command, such as "127".
	When []string `json:"when"`
	// As a check's command: a text is run by the shell, a list without one, with the check's env and runAs.
	Command *Command `json:"command,omitempty"`
	// Kept from Sensu: the Hook whose command and timeout it is, of the same namespace or
	// shared/NAME, instead of command.
	Hook string `json:"hook,omitempty" ref:"Hook"`
	// After this time it is ended; default 10s, at most 60s. The result is sent when the last hook has ended.
	Timeout Duration `json:"timeout,omitempty"`

	// Stdin reports whether the hook gets the result on its standard input, as its Hook declares.
	Stdin bool `json:"-"`
}

// Metrics configures how values are parsed from the output of a check.
type Metrics struct {
	// nagios (performance data, the default), graphite, influxdb, opentsdb or prometheus; none: the output has no numbers.
	Format string `json:"format,omitempty"`
	// Tags of each value, with properties; its own tags win.
	Tags map[string]string `json:"tags,omitempty"`
}

// Threshold is the allowed range of one metric's values.
type Threshold struct {
	// The metric's name.
	Metric string `json:"metric"`
	// Tags that a value must have; default any.
	Tags map[string]string `json:"tags,omitempty"`
	// Bounds beyond which the result is at least WARNING.
	Warning *Bounds `json:"warning,omitempty"`
	// Bounds beyond which it is CRITICAL.
	Critical *Bounds `json:"critical,omitempty"`
	// Bounds beyond which it is at least UNKNOWN.
	Unknown *Bounds `json:"unknown,omitempty"`
	// The least status of a result without such a value: warning, critical or unknown. Default: no effect.
	Missing string `json:"missing,omitempty"`
}

// Bounds has the minimum and the maximum of a threshold, between which a metric's value is good.
type Bounds struct {
	// A smaller value is out of bounds.
	Min *float64 `json:"min,omitempty"`
	// A larger value is out of bounds.
	Max *float64 `json:"max,omitempty"`
	// Kept from Sensu, in place of min: tokens that expand to a number.
	MinToken string `json:"minToken,omitempty"`
	// Kept from Sensu, in place of max: tokens that expand to a number.
	MaxToken string `json:"maxToken,omitempty"`
}

// MinText returns the smallest good value as text, or "" for a threshold without minimum.
func (b *Bounds) MinText() string { return boundText(b.Min, b.MinToken) }

// MaxText returns the largest good value as text, or "" for a threshold without maximum.
func (b *Bounds) MaxText() string { return boundText(b.Max, b.MaxToken) }

// boundText formats the minimum or maximum of a threshold as text. It is the number, or the template token that stands
// for it.
func boundText(n *float64, token string) string {
	if n == nil {
		return token
	}
	return strconv.FormatFloat(*n, 'g', -1, 64)
}

// Alert configures when the results of a check open and close a problem, and the receivers of notifications.
type Alert struct {
	// Results that are not OK, in a row, that open a problem; default 1.
	FailAfter int `json:"failAfter,omitempty"`
	// Results that are OK, in a row, that close it; default 1.
	RecoverAfter int `json:"recoverAfter,omitempty"`
	// The Route that notifies, of the same namespace or shared/NAME; default all matching routes.
	Route string `json:"route,omitempty" ref:"Route"`
	// Handlers to notify at once when a problem opens and closes, in place of a route.
	Handlers []string `json:"handlers,omitempty" ref:"Handler"`
	// When a status that keeps changing counts as one problem; default never.
	Flapping *Flapping `json:"flapping,omitempty"`
}

// Flapping configures when an event counts as flapping, by its percentage of status changes. Younger results weigh
// more. While an event flaps, its problem stays open.
type Flapping struct {
	// The share at which flapping begins: 50 is a change with every second result.
	Start int `json:"start"`
	// The share at which flapping ends; default half of start.
	End int `json:"end,omitempty"`
}

// HandlerSpec is one way to notify people or programs. It has exactly one of command, webhook and the services below.
// Texts may hold {{ .props.NAME | default "…" }}, a property of the node with the problem; addresses of services may
// not.
type HandlerSpec struct {
	// Run on the server, with the notification as JSON on its standard input.
	Command *Command `json:"command,omitempty"`
	// An HTTP POST of the notification as JSON, or of a template's output.
	Webhook *Webhook `json:"webhook,omitempty"`
	// Incidents at PagerDuty.
	PagerDuty *PagerDuty `json:"pagerduty,omitempty"`
	// Alerts at Opsgenie or Jira Service Management.
	Opsgenie *Opsgenie `json:"opsgenie,omitempty"`
	// Alerts at Prometheus' Alertmanager.
	Alertmanager *Alertmanager `json:"alertmanager,omitempty"`
	// Messages in Slack.
	Slack *Slack `json:"slack,omitempty"`
	// Messages in Mattermost.
	Mattermost *Mattermost `json:"mattermost,omitempty"`
	// Messages in Microsoft Teams.
	MSTeams *MSTeams `json:"teams,omitempty"`
	// Messages by ntfy.
	Ntfy *Ntfy `json:"ntfy,omitempty"`
	// Mail.
	Email *Email `json:"email,omitempty"`
	// A line of JSON over a new TCP connection.
	TCP *TCP `json:"tcp,omitempty"`
	// A datagram of JSON.
	UDP *UDP `json:"udp,omitempty"`
	// Lines of JSON over kept TCP connections.
	Stream *Stream `json:"stream,omitempty"`
	// Labels of the node to show in texts for people.
	ShowLabels []string `json:"showLabels,omitempty"`
	// After this time a delivery has failed; default 30s.
	Timeout Duration `json:"timeout,omitempty"`
	// Environment of the command.
	Env map[string]string `json:"env,omitempty"`
	// Secrets in the environment of the command, at most 16.
	Secrets []CommandSecret `json:"secrets,omitempty"`
	// Assets that the command needs, of the same namespace or shared/NAME, at most 16: their
	// programs come first in PATH, in the builds for the server's machine.
	Assets []string `json:"assets,omitempty" ref:"Asset"`
}

// Webhook configures a handler that posts the notification as JSON, or a template's output, to a URL.
type Webhook struct {
	// The address: http://… or https://….
	URL string `json:"url"`
	// More headers of the request.
	Headers map[string]string `json:"headers,omitempty"`
	// Signs each request: header Muster-Signature is v1= and the HMAC-SHA256 in hex of Muster-Timestamp, a dot, and
	// the body.
	Secret Secret `json:"secret,omitzero"`
	// For a bearer token: header Authorization.
	Token Secret `json:"token,omitzero"`
	// The body, in Go's text/template over the fields of the notification: {{ json .summary }}. Not "define",
	// "template", "block".
	Template string `json:"template,omitempty"`
	// The type of the template's output; default application/json.
	ContentType string `json:"contentType,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty"`
}

// Kind returns the name of the resource kind, Namespace.
func (*NamespaceSpec) Kind() string { return "Namespace" }

// Kind returns the name of the resource kind, Node.
func (*NodeSpec) Kind() string { return "Node" }

// Kind returns the name of the resource kind, Group.
func (*GroupSpec) Kind() string { return "Group" }

// Kind returns the name of the resource kind, Property.
func (*PropertySpec) Kind() string { return "Property" }

// Kind returns the name of the resource kind, Check.
func (*CheckSpec) Kind() string { return "Check" }

// Kind returns the name of the resource kind, Handler.
func (*HandlerSpec) Kind() string { return "Handler" }
