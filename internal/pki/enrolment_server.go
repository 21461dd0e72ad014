package pki

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/subtle"
	"crypto/x509"
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

// EnrolRequest is the request of a machine that wants to become a node.
type EnrolRequest struct {
	Secret    []byte            `json:"secret,omitempty"` // of the join token; without one a person decides
	CSR       []byte            `json:"csr,omitempty"`    // DER
	Name      string            `json:"name"`             // name that the machine wants for its node
	MachineID string            `json:"machineId,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // from the agent's configuration
	Facts     map[string]string `json:"facts,omitempty"`
	Groups    []string          `json:"groups,omitempty"` // self-declared
	Entity    []byte            `json:"-"`                // of an agent of Sensu, as JSON
	Address   string            `json:"-"`                // source address as the server sees it

	// For a machine that returns to a server that does not know its node.
	Namespace string    `json:"namespace,omitempty"` // the node's former namespace
	Returns   *LostNode `json:"-"`                   // proven by its certificate
}

// EnrolAnswer is the server's answer to a machine that has become a node, with certificate and node id.
type EnrolAnswer struct {
	Node        uuid.UUID         `json:"node"`
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Certificate []byte            `json:"certificate"` // PEM
	CA          []byte            `json:"ca"`          // PEM
	ServerKey   []byte            `json:"serverKey"`   // Ed25519 public key that signs assignments
	Servers     []string          `json:"servers"`
	Pending     *PendingEnrolment `json:"pending,omitempty"` // set alone: a person has to decide
}

// PendingEnrolment is the server's answer to a joining machine that a person must accept first
type PendingEnrolment struct {
	AgainMs int64 `json:"againMs"` // milliseconds until the next request
}

// Member is the node of an enrolled machine, with id, name and namespace.
type Member struct {
	UID       uuid.UUID
	Name      string
	Namespace string
}

// Registrar is the interface that finds or creates the node of a machine by its key's fingerprint.
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

// Enroller serves the HTTP requests for enrolment (EnrolPath) and renewal (RenewPath).
type Enroller struct {
	Authority *Authority
	Tokens    Tokens
	Registrar Registrar
	Servers   []string
	// Pending stores machines without a token, and those whose node is missing, until a person accepts
	// them, and returns the time until the next request; nil: they are refused.
	Pending func(key string, request EnrolRequest) (again time.Duration, err error)
	// Admit admits a request that was read whole, until leave; nil: no limit.
	Admit func(context.Context) (leave func(), err error)
}

// problemBody is the JSON body of an HTTP error answer (RFC 9457, "problem details")
type problemBody struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

// ServeHTTP handles the HTTP request of a machine that wants to become a node.
func (e *Enroller) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.Serve(w, r, ignoreWrongToken) }

// ignoreWrongToken does nothing, in place of the function that counts wrong join tokens.
func ignoreWrongToken(string) error { return nil }

// Serve reads one machine's request to join, and answers with a certificate or a reason. An unknown token may be a
// guess: Serve then calls guessed with its id, and answers with the error that guessed returns. An expired or used
// token is no guess.
func (e *Enroller) Serve(w http.ResponseWriter, r *http.Request, guessed func(tokenID string) error) {
	var request EnrolRequest
	_ = serveRequest(w, r, "enrolment", maxEnrol, &request, func() (any, *PendingEnrolment, error) {
		leave, err := e.admitRequest(r.Context())
		if err != nil {
			return nil, nil, err
		}
		defer leave()
		request.Address = r.RemoteAddr
		answer, err := e.Enrol(r.Context(), request)
		if errors.Is(err, errNoToken) {
			err = cmp.Or(guessed(tokenID(request.Secret)), err)
		}
		return answer, answer.Pending, err
	})
}

// serveRequest reads a request of limited length, calls the function do, and writes the answer or the error. name is
// the request in messages.
func serveRequest(w http.ResponseWriter, r *http.Request, name string, limit int64, request any, do func() (answer any, pending *PendingEnrolment, err error)) error {
	var answer any
	var pending *PendingEnrolment
	err := error(model.Errorf(model.Invalid, "send the %s request by POST", name))
	if r.Method == http.MethodPost {
		// The machine is not authenticated yet, so it gets little time.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(enrolTimeout))
		err = json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(request)
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			err = model.Errorf(model.TooLarge, "%s request is longer than %d bytes", name, limit)
		case err != nil:
			err = model.Errorf(model.Invalid, "read the %s request: %w", name, err)
		default:
			answer, pending, err = do()
		}
	}
	if err != nil {
		writeRefusal(w, name+" refused", err)
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if pending != nil {
		w.WriteHeader(http.StatusAccepted)
	}
	_ = json.NewEncoder(w).Encode(answer)
	return nil
}

// writeRefusal writes an error as the HTTP answer.
func writeRefusal(w http.ResponseWriter, title string, err error) {
	class := model.ClassOf(err)
	p := problemBody{Type: "about:blank#" + class.Label(), Title: title, Status: class.HTTP(), Detail: err.Error()}
	var answered *model.Error
	if errors.As(err, &answered) {
		p.Detail, p.Hint = answered.Message, answered.Hint
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(class.HTTP())
	_ = json.NewEncoder(w).Encode(p)
}

// admitRequest asks the configured function Admit whether the server may process the request now. Without that
// function every request proceeds.
func (e *Enroller) admitRequest(ctx context.Context) (leave func(), err error) {
	if e.Admit == nil {
		return func() {}, nil
	}
	return e.Admit(ctx)
}

// Enrol makes a machine a node, and returns the certificate for the machine's key. A machine with the key of a node is
// that node, with or without a token, so a repeated request after a lost answer creates no second node. Tokens are
// verified first: a wrong one costs no signature and creates no node.
func (e *Enroller) Enrol(ctx context.Context, request EnrolRequest) (EnrolAnswer, error) {
	public, err := requestKey(request.CSR)
	if err != nil {
		return EnrolAnswer{}, err
	}
	key := Fingerprint(public)
	node, ok := e.Registrar.NodeOfKey(key)
	switch withToken := len(request.Secret) > 0; {
	case !ok && !withToken:
		return e.storeJoinRequest(key, request)
	case !ok:
		node, err = e.admitByToken(ctx, key, request)
	case withToken:
		err = e.checkToken(ctx, node, request)
	}
	if err != nil {
		return EnrolAnswer{}, err
	}
	cert, err := e.Authority.signNodeCertificate(public, node.UID)
	if err != nil {
		return EnrolAnswer{}, err
	}
	return EnrolAnswer{
		Node: node.UID, Name: node.Name, Namespace: node.Namespace, Certificate: cert, CA: e.Authority.CAPEM(),
		ServerKey: publicKey(e.Authority.signKey), Servers: e.Servers,
	}, nil
}

// checkToken refuses a join token for another node, when the machine is already a node. An unknown or used token
// passes, because machines repeat requests after lost answers.
func (e *Enroller) checkToken(ctx context.Context, node Member, request EnrolRequest) error {
	token, err := e.Tokens.Find(ctx, tokenID(request.Secret))
	if err != nil || subtle.ConstantTimeCompare(token.Hash, secretHash(request.Secret)) != 1 {
		return nil
	}
	place := ""
	switch wanted := model.CleanName(request.Name); {
	case token.Node != uuid.Nil && token.Node != node.UID:
		place = "another node"
	case token.Node == uuid.Nil && token.Replace && node.Name != wanted && !isNumberedName(node.Name, wanted):
		place = "node " + wanted
	}
	if place == "" {
		return nil
	}
	return model.Errorf(model.Conflict, "this machine is already node %s by its key, but join token %s is for %s", node.Name, token.ID, place).
		WithHint("a machine needs a key for each of its nodes; on this machine: muster-agent reset-identity, then the same command again; to become %s again, join without the token", node.Name)
}

// isNumberedName reports whether a name is the requested name with a number appended, such as web-2 for web. The
// second machine of a name gets such a name.
func isNumberedName(name, wanted string) bool {
	number, ok := strings.CutPrefix(name, wanted+"-")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// storeJoinRequest stores a join request without a token, until a person accepts the machine. It refuses a key that a
// person has refused.
func (e *Enroller) storeJoinRequest(key string, request EnrolRequest) (EnrolAnswer, error) {
	if err := e.Registrar.RefuseKey(key); err != nil {
		return EnrolAnswer{}, err
	}
	if e.Pending == nil {
		return EnrolAnswer{}, model.Errorf(model.Forbidden, "this server requires a join token (--pending is off)").
			WithHint("on the server: muster node token; on this machine: muster-agent join TOKEN")
	}
	request.CSR = nil
	again, err := e.Pending(key, request)
	return EnrolAnswer{Pending: &PendingEnrolment{AgainMs: again.Milliseconds()}}, err
}

// admitByToken makes a machine with a valid join token a node, and issues its certificate. A valid token overrides an
// earlier refusal of the key.
func (e *Enroller) admitByToken(ctx context.Context, key string, request EnrolRequest) (Member, error) {
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

// RenewPath is the address at which a machine renews its certificate. TLS asks for no client
// certificate there, so expired ones renew too.
const RenewPath = "/agent/v1/renew"

const (
	// maxRenew bounds request and answer, in bytes.
	maxRenew = 64 << 10
	// RenewableFor is the time after expiry in which a certificate can be renewed.
	RenewableFor = 365 * 24 * time.Hour
)

// RenewRequest asks for a new certificate, with a proof that the agent has its key. The proof is a certificate
// request. The key stays the same; `muster node replace` changes it.
type RenewRequest struct {
	Certificate []byte `json:"certificate"` // DER
	CSR         []byte `json:"csr"`         // DER
	// Return describes the machine, for a server that does not know its node: a person has to admit
	// it again.
	Return *EnrolRequest `json:"return,omitempty"`
}

// RenewAnswer is the server's answer to a renewal, with the new certificate.
type RenewAnswer struct {
	Certificate []byte            `json:"certificate,omitempty"` // PEM
	Pending     *PendingEnrolment `json:"pending,omitempty"`     // set alone: a person has to admit the machine again
}

// LostNode is a node missing from the server's database although the node's certificate is still valid. The
// cause is the restore of an old backup.
type LostNode struct {
	UID       uuid.UUID
	Certified time.Time // issue time of the certificate
	Namespace string    // claimed by the machine
}

// Outcomes of a renewal.
const (
	Renewed        = "renewed"
	RenewedExpired = "renewed_expired" // after expiry
	RenewForeign   = "foreign"         // certificate of another CA
	RenewKey       = "key"             // the request has another key
	RenewUnknown   = "unknown"         // no node has this key
	RenewPending   = "pending"         // node missing without a record: a person decides
	RenewBarred    = "barred"          // the node was retired, replaced, …
	RenewTooOld    = "too_old"
	RenewMalformed = "malformed"
	RenewFailed    = "failed" // fault of the server, or too many at once
)

// ServeRenewal answers one renewal request, and returns the outcome as a label for metrics. For a certificate
// without its proof it calls guessed, and answers with the error that guessed returns.
func (e *Enroller) ServeRenewal(w http.ResponseWriter, r *http.Request, guessed func(string) error) (outcome string) {
	var request RenewRequest
	outcome = RenewMalformed
	_ = serveRequest(w, r, "renewal", maxRenew, &request, func() (any, *PendingEnrolment, error) {
		leave, err := e.admitRequest(r.Context())
		if err != nil {
			outcome = RenewFailed
			return nil, nil, err
		}
		defer leave()
		if request.Return != nil {
			request.Return.Address = r.RemoteAddr
		}
		var answer RenewAnswer
		if answer, outcome, err = e.Renew(request); model.ClassOf(err) == model.Unauthenticated {
			err = cmp.Or(guessed(""), err)
		}
		return answer, answer.Pending, err
	})
	return outcome
}

// Hints for a machine whose identity is void. A running agent locks the state folder, and muster-agent join keeps an
// identity, so the hints stop the agent and reset the identity first.
const (
	// HintRunJoinLine tells a person to join the machine by the command line that a server printed.
	HintRunJoinLine = "on this machine: systemctl stop muster-agent; muster-agent reset-identity; the join command that the server printed; systemctl start muster-agent"
	// HintJoinAgain tells a person how the machine becomes a node again.
	HintJoinAgain = "on the server: muster node token; " + HintRunJoinLine
	// HintAccept tells a person to accept a machine that the server does not know and does not refuse.
	HintAccept = "the agent asks to return by itself; on the server: muster node list --pending; muster node accept NAME; if the list does not have it, " + HintJoinAgain
)

// Renew issues a new certificate to a node that proves possession of its private key. An expired certificate is
// renewed too, because machines are switched off for months. The error for a former node has the reason.
func (e *Enroller) Renew(request RenewRequest) (RenewAnswer, string, error) {
	cert, err := x509.ParseCertificate(request.Certificate)
	if err != nil {
		return RenewAnswer{}, RenewMalformed, model.Errorf(model.Invalid, "read the agent's certificate: %w", err)
	}
	public, err := requestKey(request.CSR)
	if err != nil {
		return RenewAnswer{}, RenewMalformed, err
	}
	uid, err := NodeOf(cert)
	if err != nil || cert.CheckSignatureFrom(e.Authority.ca) != nil {
		return RenewAnswer{}, RenewForeign, model.Errorf(model.Unauthenticated, "this server did not issue this certificate for a node").
			WithHint("check that the machine joined this server; to join it, %s", HintJoinAgain)
	}
	if !public.Equal(cert.PublicKey) {
		return RenewAnswer{}, RenewKey, model.Errorf(model.Unauthenticated, "the key in the certificate request differs from the key in the certificate").
			WithHint("muster node replace gives a node another key")
	}
	key, now := Fingerprint(public), e.Authority.now()
	tooOld := now.After(cert.NotAfter.Add(RenewableFor))
	node, ok := e.Registrar.NodeOfKey(key)
	if !ok || node.UID != uid {
		if err := e.Registrar.RefuseKey(key); err != nil {
			return RenewAnswer{}, RenewBarred, err
		}
		if !ok && request.Return != nil && e.Pending != nil && !tooOld && e.Registrar.UnknownNode(uid) {
			return e.storeReturnRequest(key, uid, cert, *request.Return)
		}
		return RenewAnswer{}, RenewUnknown, model.Errorf(model.Forbidden, "node %s with this machine's key does not exist on the server", uid).
			WithHint("if the node was deleted, or the server requires a token (--pending), join again; %s", HintJoinAgain)
	}
	if tooOld {
		return RenewAnswer{}, RenewTooOld, model.Errorf(model.Forbidden, "the certificate of node %s expired at %s, more than %d days ago",
			node.Name, cert.NotAfter.UTC().Format(time.RFC3339), RenewableFor/(24*time.Hour)).
			WithHint("on the server: muster node replace %s; %s", node.Name, HintRunJoinLine)
	}
	made, err := e.Authority.signNodeCertificate(public, uid)
	if err != nil {
		return RenewAnswer{}, RenewFailed, err
	}
	if now.After(cert.NotAfter) {
		return RenewAnswer{Certificate: made}, RenewedExpired, nil
	}
	return RenewAnswer{Certificate: made}, Renewed, nil
}

// storeReturnRequest stores the join request of a node missing from the database, until a person accepts the
// machine. The machine has a valid certificate, but the server's data lacks its node.
func (e *Enroller) storeReturnRequest(key string, uid uuid.UUID, cert *x509.Certificate, request EnrolRequest) (RenewAnswer, string, error) {
	request.Secret, request.CSR = nil, nil
	request.Returns = &LostNode{UID: uid, Certified: cert.NotBefore.Add(backdate), Namespace: request.Namespace}
	again, err := e.Pending(key, request)
	if err != nil {
		return RenewAnswer{}, RenewFailed, err
	}
	return RenewAnswer{Pending: &PendingEnrolment{AgainMs: again.Milliseconds()}}, RenewPending, nil
}

// RenewAt returns the time at which the certificate is due for renewal. It is after two thirds of its lifetime, plus a
// delay by node id of up to half the rest.
func RenewAt(id *Identity) time.Time {
	life := Lifetime(id)
	var share float64
	for _, b := range id.Node[8:] { // the id is random
		share = (share + float64(b)) / 256
	}
	return id.Certificate.Leaf.NotAfter.Add(-life/3 + time.Duration(share*float64(life/6)))
}

// Lifetime returns the total validity period of the certificate in an agent's identity.
func Lifetime(id *Identity) time.Duration {
	cert := id.Certificate.Leaf
	return max(time.Second, cert.NotAfter.Sub(cert.NotBefore.Add(backdate)))
}

// Expired reports whether a TLS error says that the server refused the agent's certificate as expired.
func Expired(err error) bool {
	return err != nil && strings.Contains(err.Error(), "remote error: tls: expired certificate")
}

// renewRequest encodes the agent's request to renew its certificate, signed with its key
func (id *Identity) renewRequest(says *EnrolRequest) ([]byte, error) {
	key, ok := id.Certificate.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("the agent's key has an unsupported type")
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(RenewRequest{Certificate: id.Certificate.Certificate[0], CSR: csr, Return: says})
}
