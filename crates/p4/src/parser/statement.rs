//! Statements.

use crate::ast::{ExprKind, Stmt, StmtKind, SwitchCase, Variable};
use crate::lexer::Kind;

use super::{Parsed, Parser};

impl Parser<'_> {
    /// Statements in braces.
    pub(super) fn statements(&mut self) -> Parsed<Vec<Stmt>> {
        self.nested(|parser| parser.block(|parser| parser.statement()))
    }

    pub(super) fn statement(&mut self) -> Parsed<Stmt> {
        self.annotations()?;
        let start = self.span();
        let kind = match self.token().kind {
            Kind::Semicolon => {
                self.advance();
                StmtKind::Empty
            }
            Kind::OpenBrace => StmtKind::Block(self.statements()?),
            Kind::Word => match self.text_at(0) {
                "if" => self.nested(|parser| parser.conditional())?,
                "switch" => self.nested(|parser| parser.switch())?,
                "return" => {
                    self.advance();
                    if !self.is_at(Kind::Semicolon) {
                        let span = self.span();
                        return self.sink.refuse(span, "a value for `return` is").refused();
                    }
                    self.end_of(StmtKind::Return)?
                }
                "exit" => {
                    self.advance();
                    self.end_of(StmtKind::Exit)?
                }
                "for" | "while" | "break" | "continue" if self.peek(1).kind != Kind::Assign => {
                    let construct = format!("`{}` is", self.text_at(0));
                    return self.sink.refuse(start, &construct).refused();
                }
                "const" => StmtKind::Variable(self.variable()?),
                _ if self.starts_variable() => StmtKind::Variable(self.variable()?),
                _ => self.call_or_assignment()?,
            },
            _ => self.call_or_assignment()?,
        };
        let end = self.tokens[self.at.saturating_sub(1)].span;
        Ok(Stmt { kind, span: start.to(end) })
    }

    fn end_of(&mut self, kind: StmtKind) -> Parsed<StmtKind> {
        self.expect(Kind::Semicolon, "`;`")?;
        Ok(kind)
    }

    /// A type, and then a name: two words side by side are nothing else.
    pub(super) fn starts_variable(&self) -> bool {
        self.starts_type(0) || (self.peek(0).kind == Kind::Word && self.peek(1).kind == Kind::Word)
    }

    /// A variable or a constant, with its `;`.
    pub(super) fn variable(&mut self) -> Parsed<Variable> {
        let is_const = self.take_word("const");
        let ty = self.ty()?;
        let name = self.name()?;
        let value = if self.take(Kind::Assign) { Some(self.expression()?) } else { None };
        if is_const && value.is_none() {
            return self
                .sink
                .error(name.span, format!("the constant `{}` has no value", name.text))
                .refused();
        }
        self.expect(Kind::Semicolon, "`;`")?;
        Ok(Variable { is_const, ty, name, value })
    }

    fn call_or_assignment(&mut self) -> Parsed<StmtKind> {
        let target = self.expression()?;
        if self.take(Kind::Assign) {
            let value = self.expression()?;
            return self.end_of(StmtKind::Assign(target, value));
        }
        if !matches!(target.kind, ExprKind::Call(..)) {
            return self
                .sink
                .error(target.span, "this is neither a call nor an assignment")
                .label("does nothing")
                .refused();
        }
        self.end_of(StmtKind::Call(target))
    }

    fn conditional(&mut self) -> Parsed<StmtKind> {
        self.advance();
        self.expect(Kind::OpenParen, "`(`")?;
        let condition = self.expression()?;
        self.expect(Kind::CloseParen, "`)`")?;
        let then = Box::new(self.statement()?);
        let otherwise = if self.take_word("else") { Some(Box::new(self.statement()?)) } else { None };
        Ok(StmtKind::If(condition, then, otherwise))
    }

    fn switch(&mut self) -> Parsed<StmtKind> {
        self.advance();
        self.expect(Kind::OpenParen, "`(`")?;
        let subject = self.expression()?;
        self.expect(Kind::CloseParen, "`)`")?;
        let cases = self.block(|parser| {
            let span = parser.span();
            let label = if parser.take_word("default") { None } else { Some(parser.expression()?) };
            parser.expect(Kind::Colon, "`:`")?;
            let body = if parser.is_at(Kind::OpenBrace) { Some(parser.statement()?) } else { None };
            Ok(SwitchCase { label, span, body })
        })?;
        Ok(StmtKind::Switch(subject, cases))
    }
}
