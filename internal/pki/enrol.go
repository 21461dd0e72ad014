package pki

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/model"
)

// EnrolPath is where a machine without a certificate asks for one.
const EnrolPath = "/agent/v1/enrol"

// maxEnrol bounds request and answer, in bytes.
const maxEnrol = 256 << 10

// EnrolRequest is what a machine says when it joins.
type EnrolRequest struct {
	Secret    []byte            `json:"secret,omitempty"` // of the join token; without one a person decides
	CSR       []byte            `json:"csr,omitempty"`    // DER
	Name      string            `json:"name"`             // wanted
	MachineID string            `json:"machineId,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // from the agent's configuration
	Facts     map[string]string `json:"facts,omitempty"`
	Groups    []string          `json:"groups,omitempty"` // self-declared
	Whence    string            `json:"-"`                // address that it came from, as the server sees it

	// Of a machine that comes back to a server that does not know it any more.
	Namespace string     `json:"namespace,omitempty"` // where its node was
	Returns   *Returning `json:"-"`                   // what its certificate proves
}

// EnrolAnswer makes the machine a node.
type EnrolAnswer struct {
	Node        uuid.UUID `json:"node"`
	Name        string    `json:"name"`
	Namespace   string    `json:"namespace"`
	Certificate []byte    `json:"certificate"` // PEM
	CA          []byte    `json:"ca"`          // PEM
	ServerKey   []byte    `json:"serverKey"`   // Ed25519 public key that signs assignments
	Servers     []string  `json:"servers"`
	Pending     *Pending  `json:"pending,omitempty"` // instead of all that: not yet
}

// Pending tells a machine that a person has to accept it.
type Pending struct {
	AgainMs int64 `json:"againMs"` // when to ask again
}

// Member is the node that a machine is.
type Member struct {
	UID       uuid.UUID
	Name      string
	Namespace string
}

// Registrar knows which machine is which node, by the Fingerprint of its key.
type Registrar interface {
	// NodeOfKey finds the node of a key, from memory.
	NodeOfKey(key string) (Member, bool)
	// RefuseKey says why the machine with this key is no node (any more); nil: nothing is
	// known against it.
	RefuseKey(key string) error
	// UnknownNode says that nothing is known of a node: it is not there, and nothing says why.
	UnknownNode(node uuid.UUID) bool
	// Register makes the machine with this key a node: in the token's namespace with the
	// token's groups and labels, under the name wanted or one near it. If the token is Kept,
	// one use of it is counted in the same step, or refused: of two machines with the last
	// use of a token, one is a node.
	Register(ctx context.Context, key string, token JoinToken, request EnrolRequest) (Member, error)
}

// Enroller answers EnrolPath.
type Enroller struct {
	Authority *Authority
	Tokens    Tokens
	Registrar Registrar
	Servers   []string
	// Pending keeps machines that come without a token until a person accepts them, and says
	// when one shall ask again; nil: they are refused.
	Pending func(key string, request EnrolRequest) (again time.Duration, err error)
	// Admit lets in a request that has arrived whole, until leave; nil: all at once.
	Admit func(context.Context) (leave func(), err error)
}

// problem is an error as RFC 9457 writes it.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// ServeHTTP is Serve.
func (e *Enroller) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.Serve(w, r) }

// Serve enrols one machine. guess names, by its id, a token that is none here: such may be
// guesses. It is empty for one that has expired or was used up.
func (e *Enroller) Serve(w http.ResponseWriter, r *http.Request) (guess string) {
	var request EnrolRequest
	var answer EnrolAnswer
	err := error(model.Errorf(model.Invalid, "enrolment is a POST"))
	if r.Method == http.MethodPost {
		// Who enrols has shown nothing yet: nobody waits for him for long.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(enrolTimeout))
		err = json.NewDecoder(http.MaxBytesReader(w, r.Body, maxEnrol)).Decode(&request)
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			err = model.Errorf(model.TooLarge, "enrolment request is longer than %d bytes", maxEnrol)
		case err != nil:
			err = model.Errorf(model.Invalid, "enrolment request: %w", err)
		default:
			request.Whence = r.RemoteAddr
			answer, err = e.admitted(r.Context(), request)
		}
	}
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		if answer.Pending != nil {
			w.WriteHeader(http.StatusAccepted)
		}
		_ = json.NewEncoder(w).Encode(answer)
		return ""
	}
	refuse(w, "enrolment refused", err)
	if errors.Is(err, errNoToken) {
		guess = tokenID(request.Secret)
	}
	return guess
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, title string, err error) {
	class := model.ClassOf(err)
	p := problem{Type: "about:blank#" + class.Label(), Title: title, Status: class.HTTP(), Detail: err.Error()}
	var said *model.Error
	if errors.As(err, &said) {
		p.Detail, p.Hint = said.Message, said.Hint
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(class.HTTP())
	_ = json.NewEncoder(w).Encode(p)
}

func (e *Enroller) admitted(ctx context.Context, request EnrolRequest) (EnrolAnswer, error) {
	if e.Admit != nil {
		leave, err := e.Admit(ctx)
		if err != nil {
			return EnrolAnswer{}, err
		}
		defer leave()
	}
	return e.Enrol(ctx, request)
}

// Enrol makes a machine a node. Who has a node's key is that node, with a token or
// without one: an answer that was lost is given again, and makes no second node. A token
// is verified before anything else is made, so that a wrong one costs no signature and
// leaves no node.
func (e *Enroller) Enrol(ctx context.Context, request EnrolRequest) (EnrolAnswer, error) {
	public, err := requestKey(request.CSR)
	if err != nil {
		return EnrolAnswer{}, err
	}
	key := Fingerprint(public)
	node, ok := e.Registrar.NodeOfKey(key)
	if !ok && len(request.Secret) == 0 {
		return e.wait(key, request)
	}
	if !ok {
		if node, err = e.join(ctx, key, request); err != nil {
			return EnrolAnswer{}, err
		}
	}
	if ok && len(request.Secret) > 0 {
		if err := e.another(ctx, node, request); err != nil {
			return EnrolAnswer{}, err
		}
	}
	cert, err := e.Authority.issueNode(public, node.UID)
	if err != nil {
		return EnrolAnswer{}, err
	}
	return EnrolAnswer{
		Node: node.UID, Name: node.Name, Namespace: node.Namespace, Certificate: cert, CA: e.Authority.CAPEM(),
		ServerKey: publicKey(e.Authority.signKey), Servers: e.Servers,
	}, nil
}

// another refuses a machine that is a node, by its key, with a token that gives it the place
// of another node: it would hear that it is one and be the other. A token that is used up,
// or is none, is asked for again by machines whose answer was lost.
func (e *Enroller) another(ctx context.Context, node Member, request EnrolRequest) error {
	token, err := e.Tokens.Find(ctx, tokenID(request.Secret))
	if err != nil || subtle.ConstantTimeCompare(token.Hash, secretHash(request.Secret)) != 1 {
		return nil
	}
	place := ""
	switch wanted := model.CleanName(request.Name); {
	case token.Node != uuid.Nil && token.Node != node.UID:
		place = "another node"
	case token.Node == uuid.Nil && token.Replace && node.Name != wanted && !numbered(node.Name, wanted):
		place = "node " + wanted
	}
	if place == "" {
		return nil
	}
	return model.Errorf(model.Conflict, "this machine is node %s already, by its key; join token %s gives it the place of %s", node.Name, token.ID, place).
		WithHint("a machine of two nodes needs a key for each; on this machine: muster-agent reset-identity, and the line again; to be %s: without the token", node.Name)
}

// numbered says whether a name was made of the wanted one, which was taken.
func numbered(name, wanted string) bool {
	number, ok := strings.CutPrefix(name, wanted+"-")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// wait is for who shows no token: a person decides, unless one has said no before.
func (e *Enroller) wait(key string, request EnrolRequest) (EnrolAnswer, error) {
	if err := e.Registrar.RefuseKey(key); err != nil {
		return EnrolAnswer{}, err
	}
	if e.Pending == nil {
		return EnrolAnswer{}, model.Errorf(model.Forbidden, "this server lets nobody in without a join token (--pending is off)").
			WithHint("on the server: muster node token; here, what that prints: muster-agent join TOKEN")
	}
	request.CSR = nil
	again, err := e.Pending(key, request)
	return EnrolAnswer{Pending: &Pending{AgainMs: again.Milliseconds()}}, err
}

// join admits a machine whose key is no node's: with a token at once. A token is a newer
// word than what was said against the key before.
func (e *Enroller) join(ctx context.Context, key string, request EnrolRequest) (Member, error) {
	token, err := e.Tokens.Find(ctx, tokenID(request.Secret))
	if model.ClassOf(err) == model.NotFound {
		return Member{}, errUnknownToken()
	}
	if err != nil {
		return Member{}, err
	}
	if err := token.verify(request.Secret, e.Authority.now()); err != nil {
		return Member{}, err
	}
	request.Secret, request.CSR = nil, nil
	return e.Registrar.Register(ctx, key, token, request)
}

// enrolTimeout is how long one server has to answer.
const enrolTimeout = 30 * time.Second
