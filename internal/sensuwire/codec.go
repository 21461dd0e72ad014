package sensuwire

// Media types of the encodings, as the headers of the opening handshake have them. The agent
// names what it wants in Accept; it takes protobuf where one line of Accept in the answer is
// exactly that, else JSON.
const (
	MediaProto = "application/octet-stream"
	MediaJSON  = "application/json"
)

// Codec is one of the two encodings of bodies. Which one a connection speaks is agreed in
// its opening handshake.
type Codec interface {
	// What agents do.

	ParseRequest(body []byte) (Request, error)
	ParseConfig(body []byte) (Config, error)
	AppendEvent(dst []byte, e *Event) []byte

	// What backends do.

	// AppendAsk is AppendWhat, which is the same each time, AppendSecrets and AppendIssued.
	AppendAsk(dst []byte, a *Ask) []byte
	AppendWhat(dst []byte, a *Ask) []byte
	AppendSecrets(dst []byte, secrets []string) []byte
	AppendIssued(dst []byte, issued int64) []byte
	AppendConfig(dst []byte, c *Config) []byte
	ReadSaid(body []byte, s *Said) error
	ReadMachine(entity []byte) (*Machine, error)
	// ReadRules reads what the event says of its check beside the result.
	ReadRules(s *Said) (Rules, error)
	// ReadPipelines reads the names of the pipelines that the event itself names, beside its check: a
	// keepalive's are those of its agent.
	ReadPipelines(s *Said) ([]string, error)
	// ReadHooks reads at most so many of what the check's hooks brought.
	ReadHooks(s *Said, most int) ([]HookResult, error)
	// ReadMetricHandlers reads the names of the handlers that the event's metrics name.
	ReadMetricHandlers(s *Said) ([]string, error)
	// ReadPoints calls f with each point of the metrics that the event carries.
	ReadPoints(s *Said, f func(*Point)) error
}

// Protobuf is the encoding that agents and backends agree on by default. The numbers are
// those of sensu-go's api/core/v2: event.proto, entity.proto, check.proto, meta.proto.
type Protobuf struct{}

// JSON is the encoding that either end can ask for: the same messages as text.
type JSON struct{}

// Request is a check_request, as an agent reads it. What the check is made of, beyond what
// an agent needs to know, is carried over to the event as it came.
type Request struct {
	Name     string
	Proxy    string   // proxy_entity_name
	Interval uint32   // s; 0: by cron
	Issued   int64    // s since 1970
	Secrets  []string // NAME=VALUE, for the command's environment
	Check    []byte   // its CheckConfig, encoded; valid as long as the message is
}

// Key is what an agent tells checks apart by.
func (r *Request) Key() string {
	if r.Proxy == "" {
		return r.Name
	}
	return r.Name + "/" + r.Proxy
}

// Config is an entity_config: what the backend wants of the agent.
type Config struct {
	Name          string // UnknownEntity: the agent keeps what it was started with
	Namespace     string
	Subscriptions []string
}

// UnknownEntity is the name of the entity_config of an agent that the backend does not know,
// or does not want to change.
const UnknownEntity = "not found"

// Event is what an agent sends: a keepalive, or the result of a check.
type Event struct {
	ID        [16]byte
	Timestamp int64 // s since 1970
	Sequence  int64 // of the check's events on this connection, from 1
	Entity    *Entity
	Check     []byte // a request's, encoded as the connection is; nil: of a keepalive

	// Of a keepalive, s.
	Interval uint32
	Warning  uint32
	Critical uint32 // 0: never

	// Of a result.
	Issued   int64 // s since 1970
	Executed int64 // s since 1970
	Duration float64
	Status   uint32
	Output   string
	Hooks    []HookResult

	Pipelines   []string
	Points      []Point  // nil: no metrics
	Handlers    []string // of these
	MetricsOnly bool     // and no check
}

// Entity is the machine that an agent says it is on.
type Entity struct {
	Name          string
	Namespace     string
	User          string
	Subscriptions []string
	Labels        map[string]string
	Deregister    bool
	// The handler that is to hear of it.
	Deregistration    string
	KeepaliveHandlers []string
}

// What all simulated machines are alike in.
const (
	AgentVersion = "6.9.2"
	entityClass  = "agent"
	keepalive    = "keepalive" // the check of that name
)

// redacted are the words that agents hide by default; they are part of every event.
func redacted() []string {
	return []string{"password", "passwd", "pass", "api_key", "api_token", "access_key", "secret_key", "private_key", "secret"}
}

// Ask is a check_request, as a backend makes it.
type Ask struct {
	Name      string // of the check: letters, digits and _ . : -
	Proxy     string // the entity that it is about, which the event names again; empty: the agent's
	Namespace string
	Command   string   // a shell line; the agent takes what stands in {{ }} for its tokens: see Literal
	Env       []string // NAME=VALUE
	Hooks     []Hook
	Assets    []Asset  // of the command and its hooks
	Interval  uint32   // s, at least 1: agents refuse a check without
	Timeout   uint32   // s; 0: none
	Secrets   []string // NAME=VALUE, beside Env; events do not bring them back
	Issued    int64    // s since 1970: agents run a check at most once for each
}
