// Package policy executes directives on a node: for each component it checks, in enforce mode applies and checks again, and
// it reports one code per component. A check never changes anything. The package has no goroutines and no locks; the caller
// runs one directive at a time. Start reading at Executor.Run; file_and_directory_methods.go, service_sysctl_command.go and the files named after them have the methods.
package policy
