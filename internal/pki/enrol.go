package pki

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/google/uuid"
)

// EnrolPath is where a machine without a certificate asks for one.
const EnrolPath = "/agent/v1/enrol"

// EnrolRequest is what a machine says when it joins.
type EnrolRequest struct {
	Secret    []byte            `json:"secret"` // of the join token
	CSR       []byte            `json:"csr"`    // DER
	Name      string            `json:"name"`   // wanted
	MachineID string            `json:"machineId,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // from the agent's configuration
	Facts     map[string]string `json:"facts,omitempty"`
	Groups    []string          `json:"groups,omitempty"` // self-declared
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
}

// Registrar creates the node of a machine that joins, in the token's namespace with
// the token's groups and labels, under the name wanted or one near it.
type Registrar interface {
	Register(ctx context.Context, uid uuid.UUID, token JoinToken, request EnrolRequest) (name string, err error)
}

// Enroller answers EnrolPath.
type Enroller struct {
	Authority *Authority
	Tokens    Tokens
	Registrar Registrar
	Servers   []string
}

func (e *Enroller) ServeHTTP(w http.ResponseWriter, r *http.Request) {}

// EnrolConfig is the agent's side of it.
type EnrolConfig struct {
	Token    Token
	StateDir string
	Request  EnrolRequest                                                      // Secret and CSR are filled in
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer; link.Dialer for proxies
}

// Enrol makes a key, has it certified and keeps the identity in StateDir. It sends
// nothing to a server that does not show the token's CA.
func Enrol(ctx context.Context, cfg EnrolConfig) (*Identity, error) {
	return nil, errors.New("not yet")
}
