package sensu

// codec is one of the two encodings of bodies. Which one a connection speaks is agreed in
// its opening handshake: see open in dial.go.
type codec interface {
	parseRequest(body []byte) (request, error)
	parseConfig(body []byte) (config, error)
	appendEvent(dst []byte, e *event) []byte
}

// request is a check_request. What the check is made of, beyond what an agent needs to
// know, is carried over to the event as it came.
type request struct {
	name     string
	proxy    string // proxy_entity_name
	interval uint32 // s; 0: by cron
	issued   int64  // s since 1970
	check    []byte // its CheckConfig, encoded; valid as long as the message is
}

// key is what an agent tells checks apart by.
func (r *request) key() string {
	if r.proxy == "" {
		return r.name
	}
	return r.name + "/" + r.proxy
}

// config is an entity_config: what the backend wants of the agent.
type config struct {
	name          string // unknownEntity: the backend does not know it yet
	subscriptions []string
}

// unknownEntity is the name of the entity_config of an agent that is new: it keeps what it
// was started with.
const unknownEntity = "not found"

// event is what an agent sends: a keepalive, or the result of a check.
type event struct {
	id        [16]byte
	timestamp int64 // s since 1970
	sequence  int64 // of the check's events on this connection, from 1
	entity    *entity
	check     []byte // a request's, encoded as the connection is; nil: of a keepalive

	// Of a keepalive, s.
	interval uint32
	warning  uint32

	// Of a result.
	issued   int64 // s since 1970
	executed int64 // s since 1970
	duration float64
	status   uint32
	output   string
}

// entity is the machine that an agent says it is on.
type entity struct {
	name          string
	namespace     string
	user          string
	subscriptions []string
	labels        map[string]string
}

// What all simulated machines are alike in.
const (
	agentVersion = "6.9.2"
	entityClass  = "agent"
	keepalive    = "keepalive" // the check of that name
)

// redacted are the words that agents hide by default; they are part of every event.
func redacted() []string {
	return []string{"password", "passwd", "pass", "api_key", "api_token", "access_key", "secret_key", "private_key", "secret"}
}
