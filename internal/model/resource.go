package model

import (
	"cmp"
	"encoding/json"
	"time"
)

// APIVersion is the one version of resources so far.
const APIVersion = "muster/v1"

// Resource is what an operator declares: the envelope and one Spec.
//
// Its fields, and those of all that follows, are explained to people by the comments
// here: see Explain.
type Resource struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   Metadata        `json:"metadata"`
	Spec       Spec            `json:"spec"`
	Status     *ResourceStatus `json:"status,omitempty"` // set by the server; ignored by apply
}

// Spec is one of the *XxxSpec types; the kind says which.
type Spec interface{ Kind() string }

// Metadata is the same in every kind.
type Metadata struct {
	// What it is called: lower-case letters, digits, and . _ - between them, at most
	// 253. Unique within its kind and namespace.
	Name string `json:"name"`
	// The team's room it lives in; default "default". A Namespace is in none.
	Namespace string `json:"namespace,omitempty"`
	// Any one line of text that people should see.
	DisplayName string `json:"displayName,omitempty"`
	// Short facts to select by. On a node these are the operator's; they win over what
	// the agent says and measures.
	Labels map[string]string `json:"labels,omitempty"`
	// Notes that nothing selects by.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Whose it is: a team, a repository. apply --owner writes it, --prune goes by it; what
	// belongs to another owner is refused.
	Owner string `json:"owner,omitempty"`
}

// ResourceStatus is what the server adds to a resource that it keeps.
type ResourceStatus struct {
	ID       uint32    `json:"id"`       // numeric, never used again
	Revision int64     `json:"revision"` // of the last change; the ETag
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

// Targets says on which nodes something lands: the union of groups, nodes and where,
// less except. The same in every kind.
type Targets struct {
	// Groups of the same namespace, or shared/NAME. The group "all" is every node of
	// the namespace, shared/all every node: a namespace is made with it.
	Groups []string `json:"groups,omitempty"`
	// Nodes by name.
	Nodes []string `json:"nodes,omitempty"`
	// A CEL condition over node.name, node.labels, node.facts and node.groups:
	// node.labels.env == "prod" && node.facts.os == "linux".
	Where string `json:"where,omitempty"`
	// Nodes that are left out, said in the same way.
	Except *Targets `json:"except,omitempty"`
}

// NamespaceSpec is a team's room with its limits.
type NamespaceSpec struct {
	// What it may hold and send; what is left out is the server's default.
	Limits *Limits `json:"limits,omitempty"`
	// Who is told of problems on its nodes that name nobody: of silent nodes (keepalive)
	// first of all, and of checks without alert.handlers. Of this namespace, or shared/NAME.
	Handlers []string `json:"handlers,omitempty"`
	// An IANA time zone such as Europe/Paris, for windows and mutes that name none; default
	// UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Whether problems on its nodes are sent: send (default), or shadow: all is worked out and
	// recorded, and nothing is sent. What opens in the shadow stays there to its end.
	Notifications string `json:"notifications,omitempty"`
}

// NotificationsShadow is what Notifications says where nothing is sent.
const NotificationsShadow = "shadow"

// Limits bound what a namespace or a node may hold and send. What goes beyond is
// refused, counted and reported; other namespaces do not feel it.
type Limits struct {
	// Event states of the whole namespace.
	States int `json:"states,omitempty"`
	// Event states of one node; default 1000.
	StatesPerNode int `json:"statesPerNode,omitempty"`
	// Machines that have joined, with a token or as agents of Sensu. One more is refused, unless its
	// node is declared, or it takes the place of another.
	Nodes int `json:"nodes,omitempty"`
	// Labels of one node.
	Labels int `json:"labels,omitempty"`
	// Bytes of one result's output.
	OutputBytes int `json:"outputBytes,omitempty"`
	// Results per second of all nodes together.
	ResultsPerSec float64 `json:"resultsPerSec,omitempty"`
	// Results per second of one node.
	NodeResultsSec float64 `json:"nodeResultsPerSec,omitempty"`
	// Passive checks of one node that are made of events which nobody asked its Sensu agent for,
	// and of which no Check has the name; default none: such an event is refused.
	PassivePerNode int `json:"passivePerNode,omitempty"`
}

// NodeSpec is a machine, or a thing without an agent: an immutable id and a name that may
// change.
type NodeSpec struct {
	// A thing that no agent runs on: a switch, a printer, a web site. Checks with proxy speak
	// of it; no machine can become it, and nobody waits for its keepalive.
	Proxy bool `json:"proxy,omitempty"`
	// The immutable id, a UUID given at enrolment. A node without one waits for its
	// machine.
	UID string `json:"uid,omitempty"`
	// Groups that this node is in, of the same namespace or shared/NAME, besides those
	// that list it or match it.
	Groups []string `json:"groups,omitempty"`
	// Groups that the agent may put itself into, besides those that say selfJoin and those
	// that are given.
	MayJoin []string `json:"mayJoin,omitempty"`
	// Values for {{ .props.NAME }} on this node; they win over all others.
	Properties map[string]json.RawMessage `json:"properties,omitempty"`
	// What stands between it and everything else, a switch or a router: while that is down,
	// nobody is told of this node's problems.
	Upstream *Upstream `json:"behind,omitempty"`
	// How often it must be heard of, and who is told when it is not.
	Keepalive *Keepalive `json:"keepalive,omitempty"`
	// What becomes of it when it goes away for good; default: it stays, and is missed.
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
	// SHA-256 of the public key that its machine has; shown, not declared. Who comes with
	// another key is not this node.
	Key string `json:"key,omitempty"`
	// What its machine got when it joined, besides what is declared. Left out, it stays as
	// it is; {} takes it away.
	JoinGrant *JoinGrant `json:"given,omitempty"`
	// Measured by the agent; shown, not declared.
	Facts map[string]string `json:"facts,omitempty"`
	// Who its Sensu agent wants to hear of its keepalive; shown, not declared. It counts where
	// keepalive names nobody, as far as it is there.
	AgentReceivers *KeepaliveReceivers `json:"agentHears,omitempty"`
	// From the agent's configuration; shown, not declared.
	AgentLabels map[string]string `json:"agentLabels,omitempty"`
	// Groups that the agent wants to be in (its --groups); shown, not declared. It is in
	// those that say selfJoin, and in those of mayJoin.
	AgentGroups []string `json:"agentGroups,omitempty"`
}

// Upstream is the node in front of another, and how it is known to be down.
type Upstream struct {
	// Its name, of the same namespace or shared/NAME.
	Node string `json:"node"`
	// The check of it that says so by a problem that is critical or unknown, of the same
	// namespace or shared/NAME; default keepalive, which a proxy node does not have.
	Check string `json:"check,omitempty"`
}

// CheckName is the check that says that the node in front is down.
func (b *Upstream) CheckName() string { return cmp.Or(b.Check, KeepaliveCheckName) }

// JoinGrant is what a node has from its join token, or from who accepted its machine.
type JoinGrant struct {
	// Id of the join token; empty: an operator accepted the machine.
	Token string `json:"token,omitempty"`
	// Groups that the node is in, and that its agent may put itself into.
	Groups []string `json:"groups,omitempty"`
	// Labels; those of metadata.labels win.
	Labels map[string]string `json:"labels,omitempty"`
	// What becomes of it when it goes away, if lifecycle says nothing.
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
}

// Lifecycle is for machines that come and go by themselves.
type Lifecycle struct {
	// Whether the node is forgotten when its machine has been away for a while.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// After how long without a session; default 1h.
	ForgetAfter Duration `json:"forgetAfter,omitempty"`
	// Who is told, once, that it was forgotten: handlers of the same namespace, or shared/NAME.
	Handlers []string `json:"handlers,omitempty"`
}

// Keepalive says how often a node must be heard of, and who is told when it is not.
type Keepalive struct {
	// How often the agent says that it lives; default 20s.
	Interval Duration `json:"interval,omitempty"`
	// After how long a silence the keepalive event turns warning; default never. Shorter than
	// timeout.
	Warning Duration `json:"warning,omitempty"`
	// After how long a silence the keepalive event turns critical; default 120s.
	Timeout Duration `json:"timeout,omitempty"`
	// Who is told that it is silent, and that it is back: of the same namespace, or shared/NAME.
	// Default: as of any problem, routes and the namespace's handlers say.
	Handlers []string `json:"handlers,omitempty"`
	// Kept from Sensu: Pipelines that get each change of its keepalive, of the same namespace or
	// shared/NAME. Without handlers, only routes that match are told besides.
	Pipelines []string `json:"pipelines,omitempty"`
}

// KeepaliveReceivers is who an agent wants to hear of its node's keepalive.
type KeepaliveReceivers struct {
	// Handlers of the node's namespace.
	Handlers []string `json:"handlers,omitempty"`
	// Pipelines of the node's namespace.
	Pipelines []string `json:"pipelines,omitempty"`
}

// GroupSpec is a named set of nodes: the union of listed nodes, of other groups, and
// of what a condition matches.
type GroupSpec struct {
	// Nodes by name.
	Nodes []string `json:"nodes,omitempty"`
	// Other groups, of the same namespace or shared/NAME.
	Groups []string `json:"groups,omitempty"`
	// A CEL condition over node.name, node.labels and node.facts; true matches all.
	Where string `json:"where,omitempty"`
	// Whether an agent may put itself into the group.
	SelfJoin bool `json:"selfJoin,omitempty"`
	// Whether no machine can bring itself in: the group is made of lists, of what
	// operators and join tokens say, of a condition over their labels, and of groups that
	// are trusted too. What hands out secrets or enforces a policy asks for this.
	Trusted bool `json:"trusted,omitempty"`
	// Values for {{ .props.NAME }} on its nodes. Two groups that disagree are an error
	// of the nodes that are in both, and only of those.
	Properties map[string]json.RawMessage `json:"properties,omitempty"`
}

// PropertySpec is a value with a place in the chain global → namespace → group → node:
// what stands later wins. It is no place for secrets: whoever may look sees every value.
type PropertySpec struct {
	// The NAME in {{ .props.NAME }}; default metadata.name.
	Property string `json:"property,omitempty"`
	// Where it stands: global, namespace (default), group:NAME or node:NAME.
	Scope string `json:"scope,omitempty"`
	// Any value; a mapping is reached by dots and merged with those before it.
	Value json.RawMessage `json:"value"`
}

// CheckSpec is something judged on a node; exactly one of command, probe and passive, and of
// what runs one of interval and cron. Every text of command, probe, env, stdin, runAs and hooks may hold
// {{ .props.NAME | default "…" }}.
type CheckSpec struct {
	// The nodes it runs on; none if left out.
	Targets *Targets `json:"targets,omitempty"`
	// Proxy nodes that it is about, said like targets: each node of targets runs it once for
	// each of them, with the proxy node's properties, and the event is the proxy node's.
	Proxy *Targets `json:"proxy,omitempty"`
	// Each run is given to one node of targets, in turn, instead of all of them: with proxy,
	// each proxy node is looked at once per interval, or at each time of cron, which needs timeZone.
	RoundRobin bool `json:"roundRobin,omitempty"`
	// A text is run by the shell, a list without one. Exit codes and output follow the
	// conventions of Nagios plug-ins.
	Command *Command `json:"command,omitempty"`
	// Something built into the agent, which needs no package on the node.
	Probe *Probe `json:"probe,omitempty"`
	// Nobody runs it: its results come in from outside, such as the alerts of a Prometheus, about
	// whichever nodes they name, or what a program gives to its machine's Sensu agent. Beside it stand only alert, severity, ttl, maxOutput, dependsOn,
	// pipelines and disabled.
	Passive bool `json:"passive,omitempty"`
	// How often it runs. Each node has its own fixed offset within the interval.
	Interval Duration `json:"interval,omitempty"`
	// When it runs: minute, hour, day of month, month, day of week.
	Cron string `json:"cron,omitempty"`
	// The IANA time zone of cron; default the node's.
	TimeZone string `json:"timeZone,omitempty"`
	// When it does not run.
	Schedule *Schedule `json:"schedule,omitempty"`
	// When a run is ended, with all that it started; default the interval, at most 60s.
	Timeout Duration `json:"timeout,omitempty"`
	// A result older than this is a failing event, unless the whole node is silent. Longer
	// than the interval.
	TTL Duration `json:"ttl,omitempty"`
	// Environment of the command.
	Env map[string]string `json:"env,omitempty"`
	// Values that nobody sees, in variables of the command's environment; in what it prints they
	// are hidden. Where one cannot be had, the result is UNKNOWN.
	Secrets []CommandSecret `json:"secrets,omitempty"`
	// Text that the command finds on its standard input; default nothing.
	Stdin string `json:"stdin,omitempty"`
	// Assets that the command and the hooks need, of the same namespace or shared/NAME: their
	// programs come first in PATH.
	Assets []string `json:"assets,omitempty"`
	// The user the command runs as; default the agent's.
	RunAs string `json:"runAs,omitempty"`
	// How much output is kept; the cut is marked. Default 64KiB, at most 1MiB.
	MaxOutput Size `json:"maxOutput,omitempty"`
	// Whether the output is dropped once numbers were found in it and hooks have read it: it is
	// sent and kept nowhere. What the agent itself has to say of the run stays.
	DiscardOutput bool `json:"discardOutput,omitempty"`
	// Commands that run on the node after a result, by its status: what a person would look
	// at first. What they say stands with the event and in messages.
	Hooks []Hook `json:"hooks,omitempty"`
	// How numbers are found in the output.
	Metrics *Metrics `json:"metrics,omitempty"`
	// What numbers of metrics may be; beyond it, the status is raised.
	Thresholds []Threshold `json:"thresholds,omitempty"`
	// When a problem opens and closes, and who is told.
	Alert *Alert `json:"alert,omitempty"`
	// Checks on the same node without which this one cannot pass, of the same namespace or
	// shared/NAME: while one of them has a problem that is critical or unknown, nobody is told
	// of this one's.
	DependsOn []string `json:"dependsOn,omitempty"`
	// Kept from Sensu: Pipelines that get every event of this check, of the same namespace or
	// shared/NAME. Where nothing of alert names a route or handler, only routes that match are
	// told besides.
	Pipelines []string `json:"pipelines,omitempty"`
	// Severities other than the usual ones, by status: {critical: disaster}. Usual are
	// warning → warning, critical → high, unknown → average.
	Severity map[string]string `json:"severity,omitempty"`
	// Runs nowhere while this is true; of a passive check no result is taken.
	Disabled bool `json:"disabled,omitempty"`
}

// Schedule is what else there is to say of a check's times.
type Schedule struct {
	// Times in which it does not run; its TTL stands still meanwhile.
	Except []ScheduleException `json:"except,omitempty"`
}

// ScheduleException is a stretch of time; exactly one of during and window.
type ScheduleException struct {
	// "22:00-07:00 Europe/Paris", "sat,sun". The zone is by default the namespace's, else UTC.
	During string `json:"during,omitempty"`
	// A Window, of the same namespace or shared/NAME.
	Window string `json:"window,omitempty"`
}

// Command is a shell line or, as a list, a program with its arguments.
type Command struct {
	Shell string
	Argv  []string
}

// Probe names something built into the agent with its arguments.
type Probe struct {
	// Which one: disk, memory, load, tcp, http, …
	Name string `json:"name"`
	// Its arguments, always text: {warn: "20%"}.
	Args map[string]string `json:"args,omitempty"`
}

// Hook is a command that runs after a result.
type Hook struct {
	// What it is called where its output is shown; with hook, default its name.
	Name string `json:"name,omitempty"`
	// Results that it runs after: ok, warning, critical, unknown, non-ok, or an exit code of
	// the command, such as "127".
	When []string `json:"when"`
	// As a check's command: a text is run by the shell, a list without one, with the check's
	// env and runAs.
	Command *Command `json:"command,omitempty"`
	// Kept from Sensu: the Hook whose command and timeout it is, of the same namespace or
	// shared/NAME, instead of command.
	Hook string `json:"hook,omitempty"`
	// When it is ended; default 10s, at most 60s. The result leaves when the last hook has ended.
	Timeout Duration `json:"timeout,omitempty"`

	// Stdin says whether it finds the result on its standard input: what the Hook says that it
	// names.
	Stdin bool `json:"-"`
}

// Metrics says how numbers are found in an output.
type Metrics struct {
	// nagios (perfdata), graphite, influxdb, opentsdb or prometheus.
	Format string `json:"format"`
	// Tags that each value has beside its own, which win.
	Tags map[string]string `json:"tags,omitempty"`
}

// Threshold is what the values of one metric may be.
type Threshold struct {
	// The metric's name.
	Metric string `json:"metric"`
	// Tags that a value must have to count; default any.
	Tags map[string]string `json:"tags,omitempty"`
	// Bounds beyond which the result is at least WARNING.
	Warning *Bounds `json:"warning,omitempty"`
	// Bounds beyond which it is CRITICAL.
	Critical *Bounds `json:"critical,omitempty"`
	// Bounds beyond which it is at least UNKNOWN.
	Unknown *Bounds `json:"unknown,omitempty"`
	// What the result is at least where no such value was printed: warning, critical or
	// unknown; default that is fine.
	Missing string `json:"missing,omitempty"`
}

// Bounds are the least and the largest value that are fine.
type Bounds struct {
	// A smaller value is beyond.
	Min *float64 `json:"min,omitempty"`
	// A larger value is beyond.
	Max *float64 `json:"max,omitempty"`
}

// Alert says when a problem opens and closes, and who is told.
type Alert struct {
	// Results that are not OK, in a row, that open a problem; default 1.
	FailAfter int `json:"failAfter,omitempty"`
	// Results that are OK, in a row, that close it; default 1.
	RecoverAfter int `json:"recoverAfter,omitempty"`
	// The Route that says who is told, of the same namespace or shared/NAME; default those
	// that match.
	Route string `json:"route,omitempty"`
	// Handlers that are told of both at once, instead of a route.
	Handlers []string `json:"handlers,omitempty"`
	// When a status that keeps changing counts as one problem; default never.
	Flapping *Flapping `json:"flapping,omitempty"`
}

// Flapping is how much of the last 21 results has to differ in status from the one before
// it, in percent; younger ones count more. While an event flaps, its problem stays open.
type Flapping struct {
	// From which on it flaps: 50 is a change with every second result.
	Start int `json:"start"`
	// Down to which it goes on; default half of start.
	End int `json:"end,omitempty"`
}

// HandlerSpec is one way to tell; exactly one of command, webhook, and the services below.
// Texts may hold {{ .props.NAME | default "…" }}, a property of the node with the problem;
// addresses of services may not.
type HandlerSpec struct {
	// Run on the server, with the notification as JSON on its standard input.
	Command *Command `json:"command,omitempty"`
	// Called with the notification as JSON, or with what a template makes of it.
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
	MicrosoftTeams *MicrosoftTeams `json:"teams,omitempty"`
	// Messages by ntfy.
	Ntfy *Ntfy `json:"ntfy,omitempty"`
	// Mail.
	Email *Email `json:"email,omitempty"`
	// A line of JSON over a new TCP connection.
	TCP *TCP `json:"tcp,omitempty"`
	// A datagram of JSON.
	UDP *UDP `json:"udp,omitempty"`
	// Lines of JSON over TCP connections that are kept.
	Stream *Stream `json:"stream,omitempty"`
	// Labels of the node that stand in texts for people.
	ShowLabels []string `json:"showLabels,omitempty"`
	// When a delivery counts as failed; default 30s.
	Timeout Duration `json:"timeout,omitempty"`
	// Environment of the command.
	Env map[string]string `json:"env,omitempty"`
	// Secrets in the environment of the command, at most 16.
	Secrets []CommandSecret `json:"secrets,omitempty"`
	// Assets that the command needs, of the same namespace or shared/NAME, at most 16: their
	// programs come first in PATH, in the builds for the server's machine.
	Assets []string `json:"assets,omitempty"`
}

// Webhook is an HTTP POST of the notification as JSON, or of what a template makes of it.
type Webhook struct {
	// Where to: http://… or https://….
	URL string `json:"url"`
	// More headers of the request.
	Headers map[string]string `json:"headers,omitempty"`
	// Signs each request: header Muster-Signature is v1= and the HMAC-SHA256 in hex of Muster-Timestamp, a dot, and the body.
	Secret Secret `json:"secret,omitzero"`
	// For a bearer token: header Authorization.
	Token Secret `json:"token,omitzero"`
	// The body, in Go's text/template over the fields of the notification: {{ json .summary }}. Not "define", "template", "block".
	Template string `json:"template,omitempty"`
	// What the template makes; default application/json.
	ContentType string `json:"contentType,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty"`
}

func (*NamespaceSpec) Kind() string { return "Namespace" }
func (*NodeSpec) Kind() string      { return "Node" }
func (*GroupSpec) Kind() string     { return "Group" }
func (*PropertySpec) Kind() string  { return "Property" }
func (*CheckSpec) Kind() string     { return "Check" }
func (*HandlerSpec) Kind() string   { return "Handler" }
