package model

// Secret is a secret text in the resource, or a source from which the server reads the text. The server reads the
// source at each use.
type Secret struct {
	Text string `json:"-"`
	// A file on the server. White space around its content is ignored.
	FromFile string `json:"fromFile,omitempty"`
	// A variable of the server's environment.
	FromEnv string `json:"fromEnv,omitempty"`
	// A Secret, of the same namespace or shared/NAME, whose value the server knows.
	SecretName string `json:"secret,omitempty" ref:"Secret"`
}

// PagerDuty configures a handler for PagerDuty's Events API v2. The problem's id is the key of the incident, which is
// triggered, acknowledged and resolved with it.
type PagerDuty struct {
	// The integration key of a service with the integration "Events API v2".
	RoutingKey Secret `json:"routingKey"`
	// Default https://events.pagerduty.com; accounts in the EU: https://events.eu.pagerduty.com.
	URL string `json:"url,omitempty" text:"fixed"`
	// The signing secret of a PagerDuty webhook (v3) that calls /callback/NAMESPACE/HANDLER on this server.
	// Acknowledging or resolving the incident in PagerDuty then does the same here.
	Callback Secret `json:"callback,omitzero" text:"fixed"`
}

// Opsgenie configures a handler for the Alert API of Opsgenie and Jira Service Management. The problem's id is the
// alias of the alert, which is created, acknowledged and closed with it.
type Opsgenie struct {
	// The key of an API integration.
	APIKey Secret `json:"apiKey"`
	// us (default) or eu: where the account is.
	Region string `json:"region,omitempty" text:"fixed"`
	// Another address of the API; for Jira Service Management https://api.atlassian.com/jsm/ops/integration.
	URL string `json:"url,omitempty" text:"fixed"`
	// Responders as team:NAME, user:NAME, escalation:NAME or schedule:NAME. Default: the integration's.
	Responders []string `json:"responders,omitempty"`
	// Tags of the alert, at most 20.
	Tags []string `json:"tags,omitempty"`
	// The token that an Opsgenie webhook integration sends as Authorization: Bearer to /callback/NAMESPACE/HANDLER
	// on this server. Acknowledging or closing the alert in Opsgenie then does the same here.
	Callback Secret `json:"callback,omitzero" text:"fixed"`
}

// Alertmanager configures a handler that sends alerts to Prometheus' Alertmanager, 0.16 or later. Like Prometheus,
// Muster sends an open alert again every minute.
type Alertmanager struct {
	// http://… or https://… of each member of the cluster. All get every alert; one that accepts it is enough.
	URLs []string `json:"urls" text:"fixed"`
	// More labels of the alerts, to route by. They may hold no variables: one request carries many problems.
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

// Slack configures a handler that posts to an incoming webhook of Slack.
type Slack struct {
	// The webhook's address, as Slack shows it. Everybody with it can post there.
	URL Secret `json:"url" text:"url"`
}

// Mattermost configures a handler that posts to an incoming webhook of Mattermost.
type Mattermost struct {
	// The webhook's address, as Mattermost shows it. Everybody with it can post there.
	URL Secret `json:"url" text:"url"`
	// Another channel than the webhook's own, where Mattermost allows that.
	Channel string `json:"channel,omitempty"`
	// Another name than the webhook's own, where Mattermost allows that.
	Username string `json:"username,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
}

// MSTeams configures a handler that posts to a workflow of Microsoft Teams. The workflow is "Post to a channel when a
// webhook request is received". (The Connectors of Office 365 were retired.)
type MSTeams struct {
	// The workflow's address, as Teams shows it. Everybody with it can post there.
	URL Secret `json:"url" text:"url"`
}

// Ntfy configures a handler that publishes to a topic of ntfy.sh or of another ntfy server.
type Ntfy struct {
	// The topic. On a server without accounts everybody with its name can read it.
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

// Email configures a handler that sends mail by SMTP. All mails of one problem are one thread.
type Email struct {
	// HOST:PORT of the mail server.
	Server string `json:"server" text:"fixed"`
	// starttls (default; refused where it is not offered), tls (from the first byte, often port 465) or none.
	Security string `json:"security,omitempty" text:"fixed"`
	// The account at the mail server, never sent without encryption.
	Username string `json:"username,omitempty"`
	// Beside username.
	Password Secret `json:"password,omitzero"`
	// The sender: an address, or Name <address>.
	From string `json:"from"`
	// Recipients, at least one.
	To []string `json:"to"`
	// Recipients of a copy.
	CC []string `json:"cc,omitempty"`
	// A PEM file on the server with the CA of the mail server; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
}

// TCP configures a handler that sends each notification as a JSON line over a new connection.
type TCP struct {
	// HOST:PORT.
	Address string `json:"address" text:"fixed"`
	// Uses TLS.
	TLS bool `json:"tls,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
}

// UDP configures a handler that sends each notification as one JSON datagram. It cuts the output to fit 8 KiB. Loss
// goes unnoticed.
type UDP struct {
	// HOST:PORT.
	Address string `json:"address" text:"fixed"`
}

// Stream configures a handler that sends JSON lines over permanent connections. All messages of one problem take the
// same connection. With results it also sends every result of every check.
type Stream struct {
	// HOST:PORT.
	Address string `json:"address" text:"fixed"`
	// The number of connections. Default 2, at most 256.
	Connections int `json:"connections,omitempty"`
	// Uses TLS.
	TLS bool `json:"tls,omitempty"`
	// A PEM file on the server with the CA of the address; default the system's.
	CA string `json:"ca,omitempty" text:"fixed"`
	// all: every result of the namespace's nodes is one line; in the namespace shared, of all nodes. Without it:
	// only messages of routes.
	Results string `json:"results,omitempty" text:"fixed"`
	// Selects results. Default: all.
	Only *Selector `json:"only,omitempty"`
	// Where a new handler, or a new address, begins in the journal: head (default), with the next result, or
	// oldest, with the oldest kept one.
	From string `json:"from,omitempty" text:"fixed"`
}

// AllResults is the value of Stream.Results for a handler that gets every result.
const AllResults = "all"

// MaxStreamConnections bounds the connections of one handler.
const MaxStreamConnections = 256
