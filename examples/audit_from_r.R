# An audit from R: writes the files and the study, calls bayes-risk, reads the results. Base R alone.
# See docs/coming-from-r.md.

# original     data.frame of the confidential records
# made         what synthpop's syn() returns, a data.frame, or a list of them: rows in the original's order
# study        sections of the study file, as nested lists; list("sex") is a list of one
# columns      what was synthesised; of a synthpop object its methods say so
# folder       a new folder, for you alone: files, study and results
# command      words of the command: "bayes-risk", or c("python", "-P", "-m", "bayes_risk")
audit_from_r <- function(original, made, study, columns = NULL, folder = "audit-from-r",
                         command = "bayes-risk", options = character()) {
  release <- list(parameters = NULL)
  if (inherits(made, "synds")) {
    if (is.null(columns)) columns <- names(made$method)[made$method != ""]
    release$parameters <- if (isTRUE(made$proper)) "independent" else "plug-in"
    made <- made$syn
  }
  if (is.data.frame(made)) made <- list(made)
  truth <- vapply(original, is.logical, NA)
  original[truth] <- lapply(original[truth], factor, levels = c("FALSE", "TRUE"))
  if (is.null(columns)) stop("columns is missing: name what was synthesised", call. = FALSE)
  usual <- Sys.umask("077")  # confidential values lie in the folder
  on.exit(Sys.umask(usual))
  if (!dir.create(folder, showWarnings = FALSE, mode = "0700"))
    stop(folder, " exists or cannot be made: give folder= the name of a new one", call. = FALSE)
  found <- NULL  # after an error nothing stays, but finished steps: run_audit() goes on from there
  on.exit(if (is.null(found) && !file.exists(file.path(folder, ".results.work")))
    unlink(folder, recursive = TRUE), add = TRUE)
  files <- sprintf("synthetic-%d.csv", seq_along(made))
  for (l in seq_along(made)) write_table(made[[l]], original, file.path(folder, files[l]))
  write_table(original, original, file.path(folder, "original.csv"))
  levels <- lapply(Filter(is.factor, original), function(x) as.list(base::levels(x)))
  data <- list(path = "original.csv", na = list("NA"))
  if (length(levels)) data$levels <- levels
  data <- modifyList(data, as.list(study$data))
  release <- modifyList(list(files = as.list(files), columns = as.list(columns),
                             parameters = release$parameters), as.list(study$release))
  study[c("data", "release")] <- list(data, release)
  file <- file.path(folder, "study.toml")
  writeLines(enc2utf8(to_toml(study)), file, useBytes = TRUE)
  found <- run_audit(file, file.path(folder, "results"), command, options)
  found
}

# Runs a study file; stops with the command's own words where it fails.
run_audit <- function(file, out, command = "bayes-risk", options = character()) {
  said <- tempfile()
  on.exit(unlink(said))
  words <- c(command[-1], "audit", file, "--output", out, options)
  code <- suppressWarnings(system2(command[1], shQuote(words), stdout = said, stderr = said))
  text <- if (file.exists(said)) readLines(said, encoding = "UTF-8", warn = FALSE) else character()
  if (code == 127) stop(command[1], " was not found: pip install it, or give command=", call. = FALSE)
  failed <- sprintf("bayes-risk ended with exit code %d", code)
  if (code != 0) stop(paste(c(failed, text), collapse = "\n"), call. = FALSE)
  json <- readLines(file.path(out, "summary.json"), encoding = "UTF-8", warn = FALSE)
  read <- function(name) {
    found <- read.csv(file.path(out, name), check.names = FALSE, encoding = "UTF-8")
    truth <- vapply(found, function(x) is.character(x) && all(x %in% c("True", "False")), NA)
    found[truth] <- lapply(found[truth], `==`, "True")
    found
  }
  tables <- setdiff(list.files(out, "[.]csv$"), list.files(out, "^synthetic-"))
  list(summary = from_json(paste(json, collapse = "\n")), records = read("records.csv"),
       tables = sapply(tables, read, simplify = FALSE), report = file.path(out, "report.html"), said = text)
}

# A table in the order of the original's columns, levels as texts, NA without quotes.
write_table <- function(table, original, file) {
  absent <- setdiff(names(original), names(table))
  if (length(absent)) stop("a synthetic table lacks column ", paste(absent, collapse = ", "), call. = FALSE)
  table <- as.data.frame(table)[names(original)]
  table[] <- lapply(table, function(x) if (is.factor(x) || is.logical(x)) as.character(x) else x)
  write.csv(table, file, row.names = FALSE, na = "NA", fileEncoding = "UTF-8")
}

# Nested lists as TOML: named lists are tables, other lists and vectors of several values arrays.
to_toml <- function(study) {
  text <- function(x) {
    codes <- utf8ToInt(enc2utf8(x))
    paste0('"', paste(ifelse(codes < 32 | codes %in% c(34, 92), sprintf("\\u%04X", codes),
                             intToUtf8(codes, multiple = TRUE)), collapse = ""), '"')
  }
  value <- function(x) {
    if (is.list(x) && !is.null(names(x)))
      return(paste0("{ ", paste(mapply(function(k, v) paste(text(k), "=", value(v)), names(x), x), collapse = ", "), " }"))
    if (is.list(x) || length(x) != 1) return(paste0("[", paste(vapply(x, value, ""), collapse = ", "), "]"))
    if (is.logical(x)) return(tolower(as.character(x)))
    if (is.numeric(x)) return(format(x, digits = 15, scientific = FALSE, trim = TRUE))
    text(as.character(x))
  }
  lines <- function(x) mapply(function(k, v) paste(text(k), "=", value(v)), names(x), x)
  section <- vapply(study, function(x) is.list(x) && (length(x) == 0 || !is.null(names(x))), NA)
  body <- lapply(names(study)[section], function(k) c("", sprintf("[%s]", k), lines(Filter(Negate(is.null), study[[k]]))))
  as.character(unlist(c(lines(study[!section]), body)))
}

# JSON as nested lists; null is NULL.
from_json <- function(json) {
  tokens <- regmatches(json, gregexpr('"(\\\\.|[^"\\\\])*"|[][{}:,]|[^][{}:,"[:space:]]+', json, perl = TRUE))[[1]]
  at <- 0
  take <- function() { at <<- at + 1; tokens[at] }
  text <- function(x) {
    x <- substr(x, 2, nchar(x) - 1)
    for (code in unique(regmatches(x, gregexpr("\\\\u[0-9a-fA-F]{4}", x))[[1]]))
      x <- gsub(code, intToUtf8(strtoi(substr(code, 3, 6), 16)), x, fixed = TRUE)
    gsub('\\\\(["\\\\/])', "\\1", gsub("\\n", "\n", x, fixed = TRUE))
  }
  value <- function() {
    token <- take()
    if (token == "{" || token == "[") {
      end <- if (token == "{") "}" else "]"
      found <- list()
      while (tokens[at + 1] != end) {
        if (tokens[at + 1] == ",") take()
        name <- if (token == "{") { name <- text(take()); take(); name }
        item <- list(value())
        found <- c(found, if (is.null(name)) item else setNames(item, name))
      }
      take()
      return(found)
    }
    if (startsWith(token, '"')) return(text(token))
    switch(token, null = NULL, true = TRUE, false = FALSE, as.numeric(token))
  }
  value()
}

# As a script: Rscript examples/audit_from_r.R [folder] [words of the command]
# It makes two synthetic tables of R's own HairEyeColor: eyes are drawn anew within hair and sex.
if (sys.nframe() == 0) {
  given <- commandArgs(trailingOnly = TRUE)
  counts <- as.data.frame(HairEyeColor)
  original <- counts[rep(seq_len(nrow(counts)), counts$Freq), c("Sex", "Hair", "Eye")]
  original$Eye[c(3, 500)] <- NA
  set.seed(2021)
  redrawn <- function() {
    within <- split(seq_len(nrow(original)), original[c("Sex", "Hair")])
    drawn <- original
    for (rows in within) drawn$Eye[rows] <- original$Eye[sample(rows, replace = TRUE)]
    drawn
  }
  study <- list(
    title = "HairEyeColor, from R", random_seed = 1,
    data = list(missing = "level"),
    model = list(kind = "CART", order = list("Eye"), min_leaf = 5),
    attribute = list(guesses = list(Eye = "levels")),
    identification = list(known = list("Sex", "Hair"), synthesized = list("Eye"))
  )
  found <- audit_from_r(original, list(redrawn(), redrawn()), study, columns = "Eye",
                        folder = if (length(given)) given[1] else "audit-from-r",
                        command = if (length(given) > 1) given[-1] else "bayes-risk")
  cat(found$said, sep = "\n")
  str(found$summary, max.level = 2, list.len = 5, give.attr = FALSE)
  print(head(found$records, 3))
}
