package core

import (
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// Agent describes a connected agent, as its session knows it.
type Agent struct {
	Version     string
	Refuses     []string // runs that it refuses, whatever the server asks
	Idle        []IdleUnit
	Since       time.Time
	Address     string
	Skew        time.Duration // of its clock at the beginning of the session; positive: ahead of the server's
	Certificate time.Time     // expiry of the session's certificate; zero: it has none
	Assigned    uint64        // intent revision of the assignment that it holds or was sent; zero: none
	Confirmed   bool          // it has confirmed that it holds it
	Report      *AgentReport  // nil: it has sent none
}

// AgentReport is the last report of an agent on itself.
type AgentReport struct {
	Stats       wire.Stats
	Age         time.Duration
	ForksPerMin float64
}

// IdleUnit is a unit of a node's assignment that its agent does not have in force.
type IdleUnit struct {
	Unit   model.UnitID
	Name   string
	Reason string
}
