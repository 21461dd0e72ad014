package model

// Secret is a text that who may only look is not shown: written out, or read by the
// server whenever it is used.
type Secret struct {
	Text string `json:"-"`
	// A file on the server; white space around its content is left out.
	FromFile string `json:"fromFile,omitempty"`
	// A variable of the server's environment.
	FromEnv string `json:"fromEnv,omitempty"`
	// A Secret, of the same namespace or shared/NAME, whose value the server knows.
	Named string `json:"secret,omitempty"`
}

// PagerDuty is the Events API v2 of PagerDuty: an incident is triggered, acknowledged and
// resolved under the id of the problem.
type PagerDuty struct {
	// The integration key of a service with the integration "Events API v2".
	RoutingKey Secret `json:"routingKey"`
	// Default https://events.pagerduty.com; accounts in the EU: https://events.eu.pagerduty.com.
	URL string `json:"url,omitempty" text:"fixed"`
	// The signing secret of a webhook (v3) of PagerDuty that calls /callback/NAMESPACE/HANDLER
	// here: who acknowledges or resolves there does so here.
	Callback Secret `json:"callback,omitzero" text:"fixed"`
}

// Opsgenie is the Alert API of Opsgenie and of Jira Service Management: an alert is made,
// acknowledged and closed, with the id of the problem as its alias.
type Opsgenie struct {
	// The key of an API integration.
	APIKey Secret `json:"apiKey"`
	// us (default) or eu: where the account is.
	Region string `json:"region,omitempty" text:"fixed"`
	// Another address of the API; for Jira Service Management https://api.atlassian.com/jsm/ops/integration.
	URL string `json:"url,omitempty" text:"fixed"`
	// Who is told, as team:NAME, user:NAME, escalation:NAME or schedule:NAME; default what the integration says.
	Responders []string `json:"responders,omitempty"`
	// Tags of the alert, at most 20.
	Tags []string `json:"tags,omitempty"`
	// What a webhook integration shows as Authorization: Bearer when it calls
	// /callback/NAMESPACE/HANDLER here: who acknowledges or closes there does so here.
	Callback Secret `json:"callback,omitzero" text:"fixed"`
}

// Alertmanager is Prometheus' Alertmanager, 0.16 or later; Muster sends alerts to it as
// Prometheus does, again every minute while a problem is open.
type Alertmanager struct {
	// http://… or https://… of each member of the cluster: all are told, one that takes it is enough.
	URLs []string `json:"urls" text:"fixed"`
	// More labels of the alerts, to route by. Nothing here may hold a variable: one request tells of many problems.
	Labels map[string]string `json:"labels,omitempty" text:"fixed"`
	// For basic authentication, with password.
	Username string `json:"username,omitempty" text:"fixed"`
	// Beside username.
	Password Secret `json:"password,omitzero" text:"fixed"`
	// For a bearer token in place of username and password.
	Token Secret `json:"token,omitzero" text:"fixed"`
	// A PEM file on the server with the CA of the addresses; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
}

// Slack is an incoming webhook of Slack.
type Slack struct {
	// The address that Slack shows for it; whoever knows it can write there.
	URL Secret `json:"url" text:"url"`
}

// Mattermost is an incoming webhook of Mattermost.
type Mattermost struct {
	// The address that Mattermost shows for it; whoever knows it can write there.
	URL Secret `json:"url" text:"url"`
	// Another channel than the webhook's own, where that is allowed.
	Channel string `json:"channel,omitempty"`
	// Another name than the webhook's own, where that is allowed.
	Username string `json:"username,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
}

// MicrosoftTeams is a workflow of Microsoft Teams, "Post to a channel when a webhook request is
// received". (Connectors of Office 365, which took message cards, were retired.)
type MicrosoftTeams struct {
	// The address that the workflow shows; whoever knows it can write there.
	URL Secret `json:"url" text:"url"`
}

// Ntfy is a topic of ntfy.sh or of a server of one's own.
type Ntfy struct {
	// The topic; on a server without accounts whoever knows it reads along.
	Topic Secret `json:"topic"`
	// The server; default https://ntfy.sh.
	URL string `json:"url,omitempty" text:"fixed"`
	// An access token.
	Token Secret `json:"token,omitzero"`
	// In place of a token, with password.
	Username string `json:"username,omitempty"`
	// Beside username.
	Password Secret `json:"password,omitzero"`
	// More tags; those that name an emoji are shown as such.
	Tags []string `json:"tags,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
}

// Email is a mail by SMTP: plain text and HTML, one thread for each problem.
type Email struct {
	// HOST:PORT of the mail server.
	Server string `json:"server" text:"fixed"`
	// starttls (default; refused where it is not offered), tls (from the first byte, often port 465) or none.
	Security string `json:"security,omitempty" text:"fixed"`
	// To log in with, if the server wants that; never without encryption.
	Username string `json:"username,omitempty"`
	// Beside username.
	Password Secret `json:"password,omitzero"`
	// Who it is from: an address, or Name <address>.
	From string `json:"from"`
	// Who gets it, at least one.
	To []string `json:"to"`
	// Who gets a copy.
	CC []string `json:"cc,omitempty"`
	// A PEM file on the server with the CA of the mail server; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
}

// TCP is a connection for each message: the notification as one line of JSON.
type TCP struct {
	// HOST:PORT.
	Address string `json:"address" text:"fixed"`
	// Whether it is TLS.
	TLS bool `json:"tls,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
}

// UDP is one datagram for each message: the notification as JSON, its output cut so that it
// fits in 8 KiB. Nobody says whether it arrived.
type UDP struct {
	// HOST:PORT.
	Address string `json:"address" text:"fixed"`
}

// Stream is a few connections that are kept: each message is one line of JSON. Those of one
// problem take the same connection. With results, it is also told of every result of every check.
type Stream struct {
	// HOST:PORT.
	Address string `json:"address" text:"fixed"`
	// How many; default 2, at most 256.
	Connections int `json:"connections,omitempty"`
	// Whether it is TLS.
	TLS bool `json:"tls,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
	// all: every result of every check on the namespace's nodes is one line; in the namespace
	// shared, of those of all. Without it, only what routes send.
	Results string `json:"results,omitempty" text:"fixed"`
	// Which of the results; default all.
	Only *Selector `json:"only,omitempty"`
	// Where in the journal a handler that is new, or has a new address, begins: head (default),
	// with what comes from now on, or oldest, with all that is still held.
	From string `json:"from,omitempty" text:"fixed"`
}

// AllResults is Stream.Results of a handler that is told of every result.
const AllResults = "all"

// MaxStreamConnections bounds what a handler keeps open.
const MaxStreamConnections = 256
