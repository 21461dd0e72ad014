// Package intent keeps everything that operators declare: it checks, stores, revises and audits resources, and
// enrols nodes.
//
// Store (store.go) is the small interface to SQL; internal/store/intentdb implements it, and tests its promises on SQLite
// and PostgreSQL. Service (service.go) consists of Resources, Nodes, Enrolment, Tombstones, AgentReports, Namespaces,
// Runs and Retention. All of them use one repository, which commits rows and then updates the indexes in memory.
// Sessions read these indexes and not the store. Start reading at Service; apply.go shows one apply from top to bottom,
// and proposal.go shows intent as that apply would leave it.
//
// Goroutines: WriteReports, ForgetAbsentNodes and EnforceRetention, each until its context ends. Locks: see repository.
package intent
