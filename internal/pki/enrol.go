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

// EnrolPath is the address at which a machine without a certificate requests one.
const EnrolPath = "/agent/v1/enrol"

// maxEnrol bounds request and answer, in bytes.
const maxEnrol = 256 << 10

// EnrolRequest is the request of a joining machine.
type EnrolRequest struct {
	Secret    []byte            `json:"secret,omitempty"` // of the join token; without one a person decides
	CSR       []byte            `json:"csr,omitempty"`    // DER
	Name      string            `json:"name"`             // wanted
	MachineID string            `json:"machineId,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // from the agent's configuration
	Facts     map[string]string `json:"facts,omitempty"`
	Groups    []string          `json:"groups,omitempty"` // self-declared
	Whence    string            `json:"-"`                // source address as the server sees it

	// For a machine that returns to a server that does not know its node.
	Namespace string     `json:"namespace,omitempty"` // the node's former namespace
	Returns   *Returning `json:"-"`                   // proven by its certificate
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
	Pending     *Pending  `json:"pending,omitempty"` // set alone: a person has to decide
}

// Pending asks a machine to wait until a person accepts it.
type Pending struct {
	AgainMs int64 `json:"againMs"` // milliseconds until the next request
}

// Member is the node of a machine.
type Member struct {
	UID       uuid.UUID
	Name      string
	Namespace string
}

// Registrar maps machines to nodes, by the Fingerprint of their keys.
type Registrar interface {
	// NodeOfKey returns the node of a key, from memory.
	NodeOfKey(key string) (Member, bool)
	// RefuseKey returns the reason why the machine with this key must not be a node; nil: no
	// objection.
	RefuseKey(key string) error
	// UnknownNode reports that neither the node nor a record of its end exists.
	UnknownNode(node uuid.UUID) bool
	// Register makes the machine with this key a node: in the token's namespace with the token's
	// groups and labels, under the requested name or a similar free one. If the token is Stored,
	// the same step counts one use or refuses it, so of two machines with the last use of a token
	// only one becomes a node.
	Register(ctx context.Context, key string, token JoinToken, request EnrolRequest) (Member, error)
}

// Enroller answers EnrolPath.
type Enroller struct {
	Authority *Authority
	Tokens    Tokens
	Registrar Registrar
	Servers   []string
	// Pending stores machines without a token until a person accepts them, and returns the time
	// until the next request; nil: they are refused.
	Pending func(key string, request EnrolRequest) (again time.Duration, err error)
	// Admit admits a request that was read whole, until leave; nil: no limit.
	Admit func(context.Context) (leave func(), err error)
}

// problem is an error in the form of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// ServeHTTP calls Serve.
func (e *Enroller) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.Serve(w, r) }

// Serve enrols one machine. guess is the id of an unknown token, which may be a guess; it is empty
// for an expired or used one.
func (e *Enroller) Serve(w http.ResponseWriter, r *http.Request) (guess string) {
	var request EnrolRequest
	var answer EnrolAnswer
	err := error(model.Errorf(model.Invalid, "enrolment is a POST"))
	if r.Method == http.MethodPost {
		// An enrolling machine is not authenticated yet, so it gets little time.
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

// Enrol makes a machine a node. A machine with the key of a node is that node, with or without a
// token, so a repeated request after a lost answer creates no second node. Tokens are verified
// first: a wrong one costs no signature and creates no node.
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
		if err := e.checkToken(ctx, node, request); err != nil {
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

// checkToken refuses a machine that already is a node but shows a token for another node. An
// unknown or used token passes, because machines repeat requests after lost answers.
func (e *Enroller) checkToken(ctx context.Context, node Member, request EnrolRequest) error {
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

// numbered reports whether a name is the requested one with a number appended.
func numbered(name, wanted string) bool {
	number, ok := strings.CutPrefix(name, wanted+"-")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// wait handles a request without a token: a person decides, unless the key was refused before.
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

// join admits a machine with a new key; with a token at once. A token overrides an earlier refusal
// of the key.
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

// enrolTimeout bounds the answer of one server.
const enrolTimeout = 30 * time.Second
