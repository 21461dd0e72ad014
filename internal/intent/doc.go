// Package intent keeps everything that operators declare: it checks, stores, revises and audits resources, and
// enrols nodes.
//
// Store (store.go) is the small interface to SQL; internal/store/intentdb implements it, and tests its promises on SQLite
// and PostgreSQL. Service (service.go) is the sum of its parts: Resources, Nodes,
// Enrolment, Tombstones, AgentReports, Namespaces, Runs and Retention. All stand on one repository,
// which commits rows and keeps the indexes in memory in step. Start reading at Service; one apply is apply.go from top to
// bottom, and proposal.go is intent as that apply would leave it. Sessions are answered from the indexes.
//
// Goroutines: WriteReports, ForgetAbsentNodes and EnforceRetention, each until its context ends. Locks: see repository.
package intent
