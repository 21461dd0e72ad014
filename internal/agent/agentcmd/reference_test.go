package agentcmd

import (
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

//go:generate go test . -run TestReferencePageIsUpToDate -update

const referencePage = "../../../docs/reference/agent.md"

func TestReferencePageIsUpToDate(t *testing.T) {
	testenv.Golden(t, referencePage, Reference())
}
