// Package access decides who may do what, by the policy file: roles with what they
// allow and deny, who has which role, conditions on arguments, what a person has to
// agree to, and the limits that the package limit holds calls to.
//
// A policy never changes: when its file does, it is read again as a whole (Live). What
// no rule allows is denied, and what any rule denies is denied whatever else allows it.
package access
