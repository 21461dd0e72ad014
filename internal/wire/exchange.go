package wire

import "github.com/muster-fleet/muster/internal/model"

// Exchange is something that one side asks of the other during a session, and the answer, which
// has the same id: 15 is the last number that a message may have, so what is asked later gets a
// field of its own here. An agent asks only what Welcome.Features says that the server answers.
type Exchange struct {
	ID      uint64
	Ask     *SecretsAsk // agent to server
	Secrets *Secrets    // server to agent
}

// What Welcome.Features may say.
const (
	FeatureSecrets uint32 = 1 << iota // SecretsAsk is answered
)

// SecretsAsk asks for the values of secrets that the agent's assignment names.
type SecretsAsk struct{ Names []string } // NAMESPACE/NAME

// Secrets are the values asked for, each once. They are nowhere but in memory on either side.
type Secrets struct{ Given []GivenSecret }

// GivenSecret is one value, or why there is none.
type GivenSecret struct {
	Name    string
	Value   []byte
	LeaseMs uint32 // how long it may be kept in memory; zero: for this run only
	Error   string // instead of Value: for people
}

// MaxAsked is how many secrets one Exchange asks for at most.
const MaxAsked = model.MaxCheckSecrets

// AppendExchange writes a whole frame.
func AppendExchange(dst []byte, x *Exchange) []byte {
	dst, start := begin(dst, uint32(KindExchange))
	dst = appendFixed64(dst, 1, x.ID)
	if x.Ask != nil {
		var in int
		dst, in = begin(dst, 2)
		for _, name := range x.Ask.Names {
			dst = appendItem(dst, 1, name)
		}
		dst = end(dst, in)
	}
	if x.Secrets != nil {
		var in int
		dst, in = begin(dst, 3)
		for i := range x.Secrets.Given {
			g := &x.Secrets.Given[i]
			var inner int
			dst, inner = begin(dst, 1)
			dst = appendString(dst, 1, g.Name)
			dst = appendBytes(dst, 2, g.Value)
			dst = appendUint(dst, 3, uint64(g.LeaseMs))
			dst = appendString(dst, 4, g.Error)
			dst = end(dst, inner)
		}
		dst = end(dst, in)
	}
	return end(dst, start)
}

// Decode fills x from the body of a frame. Values refer to body.
func (x *Exchange) Decode(body []byte) error {
	*x = Exchange{}
	f := fields{message: "Exchange", rest: body}
	for f.next() {
		switch f.num {
		case 1:
			x.ID = f.fixed64("id")
		case 2:
			x.Ask, x.Secrets = f.secretsAsk(), nil // one of them: the last counts
		case 3:
			x.Ask, x.Secrets = nil, f.secrets()
		}
	}
	return f.err
}

func (f *fields) secretsAsk() *SecretsAsk {
	a := &SecretsAsk{}
	in := f.nested("secrets_ask", "SecretsAsk")
	for in.next() {
		if in.num == 1 && in.room("names", len(a.Names), MaxAsked) {
			a.Names = append(a.Names, in.string("names", 2*maxName))
		}
	}
	f.done(&in)
	return a
}

func (f *fields) secrets() *Secrets {
	s := &Secrets{}
	in := f.nested("secrets", "Secrets")
	for in.next() {
		if in.num == 1 && in.room("given", len(s.Given), MaxAsked) {
			var g GivenSecret
			inner := in.nested("given", "GivenSecret")
			for inner.next() {
				switch inner.num {
				case 1:
					g.Name = inner.string("name", 2*maxName)
				case 2:
					g.Value = inner.raw("value", model.MaxSecret)
				case 3:
					g.LeaseMs = inner.uint32("lease_ms")
				case 4:
					g.Error = inner.string("error", maxText)
				}
			}
			in.done(&inner)
			s.Given = append(s.Given, g)
		}
	}
	f.done(&in)
	return s
}

func appendChunkSecret(dst []byte, field uint32, s *model.ChunkSecret) []byte {
	dst, in := begin(dst, field)
	dst = appendString(dst, 1, s.Env)
	dst = appendString(dst, 2, s.Name)
	dst = appendString(dst, 3, s.AgentEnv)
	dst = appendString(dst, 4, s.AgentFile)
	return end(dst, in)
}

func (f *fields) chunkSecret() (s model.ChunkSecret) {
	in := f.nested("secrets", "ChunkSecret")
	for in.next() {
		switch in.num {
		case 1:
			s.Env = in.string("env", maxName)
		case 2:
			s.Name = in.string("name", 2*maxName)
		case 3:
			s.AgentEnv = in.string("agent_env", maxName)
		case 4:
			s.AgentFile = in.string("agent_file", maxText)
		}
	}
	f.done(&in)
	return s
}
