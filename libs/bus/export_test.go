package bus

// CheckResult is what a result has to pass.
var CheckResult = checkResult
